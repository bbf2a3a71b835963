package redlock

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/master"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// ballotOfOne is a ballot at a master that nobody reaches.
func ballotOfOne(t *testing.T) (*ballot, *voter) {
	return ballotAt(t, redistest.NewClient(t, "127.0.0.1:1"))
}

// ballotAt is a ballot at one master.
func ballotAt(t *testing.T, rdb *redis.Client) (*ballot, *voter) {
	c, err := engine.New(rdb, nil)
	require.NoError(t, err)
	redistest.CloseAtEnd(t, c)
	v := &voter{Master: asMaster(c), client: c}
	return &ballot{q: &quorum{base: &engine.Lock{Asker: engine.Asker{Client: c}}, voters: []*voter{v}},
		votes: make([]vote, 1), patience: time.Hour}, v
}

// A master that is not asked, because the lock is being given back, is not taken for silent.
func TestMasterThatIsNotAskedIsNotSilent(t *testing.T) {
	b, v := ballotOfOne(t)
	b.over = true
	require.ErrorIs(t, b.send(t.Context(), 0, question{grants: true}, nil), errs.ErrReleased)
	require.Zero(t, v.Silence())
}

// A vote whose turn comes after its caller has left is not sent, and the master is not taken for silent.
func TestVoteOfOneWhoHasLeft(t *testing.T) {
	b, v := ballotOfOne(t)
	_, before := v.sequence.enter()
	heard := make(chan answer)
	sends := func(int64) lua.Call { panic("sent") }
	require.NoError(t, b.send(t.Context(), 0, question{call: sends, grants: true}, func(a answer) { heard <- a }))
	b.mu.Lock()
	b.over = true
	b.mu.Unlock()
	close(before)
	a := <-heard
	require.ErrorIs(t, a.err, errs.ErrReleased)
	require.True(t, a.unsent)
	require.Zero(t, b.votes[0].out, "there is nothing to give back")
	require.Zero(t, v.Silence())
}

// findsOut has a caller leave before a vote goes to a silent master, and reports whether the master is known to answer then.
func findsOut(t *testing.T) bool {
	for {
		b, v := ballotAt(t, redistest.Shared(t).Client(t))
		b.patience = 100 * time.Millisecond
		_, silent := v.Begin(b.patience)
		require.False(t, silent)
		v.Asks()
		v.End(errors.New("no answer"))
		require.Eventually(t, func() bool { return v.Silence() > b.patience }, 10*time.Second, time.Millisecond)
		_, before := v.sequence.enter()
		sent := false
		call := func(int64) lua.Call {
			sent = true // the test was held up for as long as the vote waits for its turn
			return lua.Renew.Call("a", "b", "c", 1, 1)
		}
		var noAnswer *timeoutError
		require.ErrorAs(t, b.send(t.Context(), 0, question{call: call, grants: true}, nil), &noAnswer)
		b.mu.Lock()
		b.over = true
		b.mu.Unlock()
		close(before)
		require.NoError(t, b.q.base.Client.Tasks().Wait(t.Context()))
		if sent {
			continue
		}
		require.Zero(t, b.votes[0].out, "there is nothing to give back")
		answers := v.Silence() == 0
		send, _ := v.Begin(b.patience)
		require.True(t, send, "nothing is under way")
		v.End(nil)
		return answers
	}
}

// TestSilentMasterIsAskedForOneWhoHasLeft: one question at a time may go to a silent master. If callers leave before
// that is sent, it is asked all the same whether it is back.
func TestSilentMasterIsAskedForOneWhoHasLeft(t *testing.T) {
	require.True(t, findsOut(t))

	// The control.
	t.Cleanup(defence.FindOut.Without(t))
	require.False(t, findsOut(t))
}

// TestLooksAgainWhenAMajorityIsFree: a refused lock is asked for when a majority of masters have ended its lease.
func TestLooksAgainWhenAMajorityIsFree(t *testing.T) {
	held := func(millis int64) answer { return answer{reply: lua.NewReply(lua.Denied, millis, "a:h1", "5")} }
	granted := answer{counts: true, reply: lua.NewReply(lua.Done, "6", int64(0), "5", "9")}
	free, unknown := answer{reply: lua.NewReply(lua.Gone)}, answer{err: errWaiting}
	for name, c := range map[string]struct {
		answers []answer
		free    time.Duration
	}{
		"all hold it":                   {[]answer{held(400), held(100), held(200)}, 200 * time.Millisecond},
		"one has granted it":            {[]answer{held(400), granted, held(200)}, 200 * time.Millisecond},
		"one is free":                   {[]answer{held(400), free, held(200)}, 200 * time.Millisecond},
		"one does not answer":           {[]answer{held(400), unknown, held(200)}, 400 * time.Millisecond},
		"one holds it without an end":   {[]answer{held(400), held(-1), held(200)}, 400 * time.Millisecond},
		"two hold it without an end":    {[]answer{held(-1), held(-1), held(200)}, -1},
		"its lease ends in this moment": {[]answer{held(0), held(0), held(200)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := &election{ballot: closedBallot(t)}
			p := &tally{answers: c.answers}
			require.Equal(t, c.free, p.untilFree(e.q.need))
			if again := e.defeat(p); c.free >= 0 {
				require.Equal(t, c.free+2*time.Millisecond, again)
			} else {
				require.GreaterOrEqual(t, again, maxLook/2)
			}
		})
	}
}

// Something else than a lock at one master, which may be the only one that was asked, is not taken for the word of a majority.
func TestMistakeOfAMinority(t *testing.T) {
	r := rival{owner: "colour", left: -1, masters: 1}
	require.NoError(t, r.blocker(2).Mistake("a"))
	require.Error(t, r.blocker(1).Mistake("a"))
	r.left = time.Minute
	require.NoError(t, r.blocker(1).Mistake("a"), "it ends")
}

// TestRivalWhoLeaves: an owner who has left a lock at some masters, and not yet at others, is one.
func TestRivalWhoLeaves(t *testing.T) {
	p := &tally{}
	for _, owner := range []string{"a:h07", "a:h7", "b:h7", "a:h07"} {
		p.answers = append(p.answers, answer{reply: lua.NewReply(lua.Denied, 1, owner, "5")})
	}
	list := p.rivals()
	require.Len(t, list, 2)
	require.Equal(t, "a:h7", list[0].owner)
	require.Equal(t, 3, list[0].masters)
	require.Equal(t, 3, p.owned(func(int) bool { return true }))
	require.Equal(t, `held by "a:h7"`, p.answers[0].String())
}

type nobody struct{}

func (nobody) Lost(error) {}

// TestRefusedBeforeTheHold: a refusal has the hold renewed soon, also one that comes when the votes are counted and there is no
// hold yet. One of a question that came after the win does not: who asks again and again is refused each time.
func TestRefusedBeforeTheHold(t *testing.T) {
	for name, hears := range map[string]struct {
		won, held bool // what the ballot knows when the refusal comes
		begun     time.Duration
		renewals  int32
	}{
		"before the win":            {renewals: 1},
		"after it":                  {won: true, renewals: 1},
		"with the hold":             {won: true, held: true, renewals: 1},
		"of a question of a holder": {won: true, held: true, begun: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var renewals atomic.Int32
				dog := watchdog.New(watchdog.Config{Renew: func(context.Context,
					[]watchdog.Renewal) {
					renewals.Add(1)
				}})
				defer func() {
					dog.Stop()
					dog.Join()
				}()
				b := &ballot{q: &quorum{base: &engine.Lock{Dog: dog}}, votes: make([]vote, 3)}
				var lease watchdog.Lease
				require.True(t, dog.Watch(&lease, nobody{}, time.Now(), time.Hour, true))
				refusal := &answer{begun: time.Now().Add(hears.begun), reply: lua.NewReply(lua.Denied, 1000, "another")}
				time.Sleep(time.Millisecond)
				if hears.won {
					b.won = time.Now()
				}
				if hears.held {
					b.live(&lease)
				}
				b.settle(0, refusal)
				if !hears.held {
					b.live(&lease)
				}
				time.Sleep(joinAfter)
				synctest.Wait()
				require.Equal(t, hears.renewals, renewals.Load())
			})
		})
	}
}

// What a server says of a lease may be anything.
func TestLeasesAtTheEndsOfTheirRange(t *testing.T) {
	for _, millis := range []int64{math.MinInt64, -2, -1, 0, 1, 1000, math.MaxInt64 / 2_000_000,
		math.MaxInt64 / 1_000_000, math.MaxInt64 / 2, math.MaxInt64} {
		left := remote.Remaining(millis)
		require.Equal(t, millis < 0, left < 0, "%d", millis)
		for range 10 {
			d := lookAgain(left)
			require.Positive(t, d, "%d", millis)
			require.LessOrEqual(t, d, maxLook, "%d", millis)
		}
		if millis >= 0 && millis <= 1000 {
			require.Equal(t, time.Duration(millis)*time.Millisecond, left)
		}
	}
}

// The masters that are asked first are not the same one for all names, and the order of clients does not matter.
func TestLeadsAreSpread(t *testing.T) {
	ids := []string{"0a1b", "f00d", "beef", "cafe", "5eed"}
	led := map[string]int{}
	for n := range 1000 {
		best := ""
		for _, id := range ids {
			if name := strconv.Itoa(n); best == "" || score(name, id) < score(name, best) {
				best = id
			}
		}
		led[best]++
	}
	for _, id := range ids {
		require.Greater(t, led[id], 100, "%v", led)
	}
}

// Only who had the lead before the last look, and still has it when that is due, is passed over.
func TestContestPasses(t *testing.T) {
	c := contest{}
	require.False(t, c.passes("a"), "seen for the first time")
	require.True(t, c.passes("a"))
	require.False(t, c.passes("b"), "another one")
	c.retryAt = time.Now().Add(time.Hour)
	require.False(t, c.passes("b"), "woken early")
	c.retryAt = time.Now()
	require.True(t, c.passes("b"))
}

// A client remembers a bounded number of contested locks, and none for long.
func TestRivalsAreBounded(t *testing.T) { synctest.Test(t, testRivals) }

func testRivals(t *testing.T) {
	var r rivals
	p := &tally{answers: []answer{{reply: lua.NewReply(lua.Denied, 1, "x", "0")}}}
	for n := range 2 * maxRivalries {
		r.note(queue.Key{Name: strconv.Itoa(n)}, p, nil, 1, false, nil)
	}
	require.Equal(t, maxRivalries, len(r.names))
	require.True(t, r.lately(queue.Key{Name: "0"}))
	require.False(t, r.lately(queue.Key{Name: strconv.Itoa(maxRivalries)}), "no room")
	<-time.After(rivalryFor)
	require.False(t, r.lately(queue.Key{Name: "0"}), "too long ago")
	r.note(queue.Key{Name: "new"}, p, nil, 1, false, nil)
	require.Equal(t, 1, len(r.names))
}

// Who is much slower than the others is not asked first, nor is who is held by somebody without a majority.
func TestLeadIsPassedOver(t *testing.T) {
	var clients []*engine.Client
	for _, m := range redistest.StartMasters(t, 3) {
		c, err := engine.New(m.Client(t), nil)
		require.NoError(t, err)
		redistest.CloseAtEnd(t, c)
		clients = append(clients, c)
	}
	q := &quorum{base: &engine.Lock{Asker: engine.Asker{Client: clients[0]}}}
	for _, c := range clients {
		v := &voter{Master: asMaster(c), client: c}
		_, err := v.Run(t.Context())
		require.NoError(t, err)
		q.voters = append(q.voters, v)
		v.Took(time.Millisecond)
	}
	first, ok := q.lead(time.Minute)
	require.True(t, ok)
	for range 10 {
		q.voters[first].Took(50 * time.Millisecond)
	}
	second, ok := q.lead(time.Minute)
	require.True(t, ok)
	require.NotEqual(t, first, second)
	p := &tally{answers: make([]answer, 3)}
	for i := range p.answers {
		p.answers[i].err = errWaiting
	}
	p.answers[second] = answer{reply: lua.NewReply(lua.Denied, int64(1), "x", "0")}
	q.rivals().note(q.base.Key, p, q.voters, 2, true, nil)
	third, ok := q.lead(time.Minute)
	require.True(t, ok)
	require.NotContains(t, []int{first, second}, third)
	for _, v := range q.voters {
		v.Took(time.Second) // far away, all of them
	}
	_, ok = q.lead(time.Minute)
	require.True(t, ok)
}

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

// TestProposedAboveTheLast: whatever the clocks show, a token that this process has seen is not proposed again.
func TestProposedAboveTheLast(t *testing.T) {
	q := closedBallot(t).q
	q.noteToken(1 << 60)
	require.Equal(t, uint64(1<<60+1), q.propose())
	q.noteToken(5)
	require.Equal(t, uint64(1<<60+1), q.propose())
}

// TestGivenBackMeanwhile: an operation that Close has overtaken is not repeated. It came too late; its outcome is known.
func TestGivenBackMeanwhile(t *testing.T) {
	b := closedBallot(t)
	op := func(bool) lua.Call { return lua.Renew.Call("a") }
	b.over = true
	o := b.repeat(t.Context(), op, nil)
	require.NoError(t, o.Err)
	require.Equal(t, lua.Gone, o.Reply.Status)
}

// TestSomebodyElsesOwner: what has the lock and is no owner cannot pass for a vote, nor make an error long.
func TestSomebodyElsesOwner(t *testing.T) {
	owner := "x; 2 (h:p): granted" + strings.Repeat("!", 1_000_000)
	said := (&answer{reply: lua.NewReply(lua.Denied, 1, owner, "5")}).String()
	require.True(t, strings.HasPrefix(said, `held by "x; 2 (h:p): granted!`), "%.100s", said)
	require.Less(t, len(said), 500)
}
