package redlock

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/master"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// closedBallot is a ballot at three masters of which none can be asked any more: its clients are closed.
func closedBallot(t *testing.T) *ballot {
	rdb := redistest.NewClient(t, "127.0.0.1:1")
	c, err := engine.New(rdb, nil)
	require.NoError(t, err)
	require.NoError(t, c.Close(t.Context()))
	q := &quorum{base: &engine.Lock{Asker: engine.Asker{Client: c}}, all: []int{0, 1, 2}, need: 2}
	for range q.all {
		q.voters = append(q.voters, &voter{Master: asMaster(c), client: c})
	}
	return &ballot{q: q, votes: make([]vote, 3), patience: time.Minute}
}

// TestGrantedAnew: a vote that counts goes on counting only where the master had it still. Of one that has
// forgotten it and grants the lock anew, it is asked again whether it may have forgotten others.
func TestGrantedAnew(t *testing.T) {
	for had, counts := range []bool{false, true} {
		b := closedBallot(t)
		b.votes[0] = vote{asked: true, out: 1, held: true, granted: true, counts: true, seen: time.Now()}
		a := &answer{run: &master.Run{ID: "a", Since: time.Now()}, reply: lua.NewReply(lua.Done, "7", int64(had), "", "9")}
		b.note(t.Context(), 0, question{grants: true}, a)
		require.Equal(t, counts, a.counts)
		require.Equal(t, !counts, a.run != nil, "what is known of its start decides")
	}
}

// TestAgree: which tokens are the owner's, and until when an election is won.
func TestAgree(t *testing.T) {
	const lease = time.Hour
	lasts := closedBallot(t).lasts()
	for name, c := range map[string]struct {
		known uint64 // to one of the masters before
		took  time.Duration
		first uint64
		err   error
	}{
		"all that were proposed":           {known: 50, first: 101},
		"one master knew some of them":     {known: 103, first: 104},
		"one master knew all but one":      {known: 109, first: 110},
		"as long as others allow for":      {known: 50, first: 101, took: lasts - time.Minute},
		"longer":                           {known: 50, took: lasts, err: errHeldUp},
		"longer than the lease is trusted": {known: 50, took: lease, err: errSlow},
	} {
		t.Run(name, func(t *testing.T) {
			e := &election{ballot: closedBallot(t), sent: time.Now().Add(-c.took), first: 101, last: 110}
			p := e.q.newTally()
			for i, known := range []uint64{0, c.known, 7} {
				p.answers[i] = answer{counts: true, reply: lua.NewReply(lua.Done, "110", int64(0), strconv.FormatUint(known, 10), "9")}
			}
			e.agree(t.Context(), &engine.Settings{Lease: lease}, p)
			require.ErrorIs(t, e.err, c.err)
			require.Equal(t, c.err == nil, e.won)
			require.Equal(t, uint64(110), e.last)
			if e.won {
				require.Equal(t, c.first, e.first)
			}
		})
	}
}

// TestProposedAboveTheLast: whatever the clocks show, a token that this process has seen is not proposed
// again.
func TestProposedAboveTheLast(t *testing.T) {
	q := closedBallot(t).q
	q.saw(1 << 60)
	require.Equal(t, uint64(1<<60+1), q.propose())
	q.saw(5)
	require.Equal(t, uint64(1<<60+1), q.propose())
}

// TestGivenBackMeanwhile: an operation of a holder that Close has overtaken is not repeated. It came too
// late, and is not one of unknown outcome.
func TestGivenBackMeanwhile(t *testing.T) {
	b := closedBallot(t)
	op := func(bool) lua.Call { return lua.Renew.Call("a") }
	b.over = true
	o := b.repeat(t.Context(), op, nil)
	require.NoError(t, o.Err)
	require.Equal(t, lua.Gone, o.Reply.Status)
}
