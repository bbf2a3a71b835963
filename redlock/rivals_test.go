package redlock

import (
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// What a server says of a lease may be anything.
func TestLeasesAtTheEndsOfTheirRange(t *testing.T) {
	for _, millis := range []int64{math.MinInt64, -2, -1, 0, 1, 1000, math.MaxInt64 / 2_000_000,
		math.MaxInt64 / 1_000_000, math.MaxInt64 / 2, math.MaxInt64} {
		left := remote.Remaining(millis)
		require.Equal(t, millis < 0, left < 0, "%d", millis)
		for range 10 {
			d := remote.Spread(lookAgain(left))
			require.Positive(t, d, "%d", millis)
			require.LessOrEqual(t, d, maxLook, "%d", millis)
		}
		if millis >= 0 && millis <= 1000 {
			require.Equal(t, time.Duration(millis)*time.Millisecond, left)
		}
	}
}

// The masters that are asked first are not the same one for all names, and the order of clients
// does not matter.
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
	c.look = time.Now().Add(time.Hour)
	require.False(t, c.passes("b"), "woken early")
	c.look = time.Now()
	require.True(t, c.passes("b"))
}

// A client remembers a bounded number of contested locks, and none for long.
func TestRivalsAreBounded(t *testing.T) { synctest.Test(t, testRivals) }

func testRivals(t *testing.T) {
	var r rivals
	p := &tally{answers: []answer{{reply: lua.NewReply(lua.Denied, 1, "x", "0")}}}
	for n := range 2 * maxRivalries {
		r.note(queue.Key{Name: strconv.Itoa(n)}, p, nil, 1, false)
	}
	require.Equal(t, maxRivalries, len(r.names))
	require.True(t, r.lately(queue.Key{Name: "0"}))
	require.False(t, r.lately(queue.Key{Name: strconv.Itoa(maxRivalries)}), "no room")
	<-time.After(rivalryFor)
	require.False(t, r.lately(queue.Key{Name: "0"}), "too long ago")
	r.note(queue.Key{Name: "new"}, p, nil, 1, false)
	require.Equal(t, 1, len(r.names))
}

// Who is much slower than the others is not asked first, nor is who is held by somebody without a
// majority.
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
	q.rivals().note(q.base.Key, p, q.voters, 2, true)
	third, ok := q.lead(time.Minute)
	require.True(t, ok)
	require.NotContains(t, []int{first, second}, third)
	for _, v := range q.voters {
		v.Took(time.Second) // far away, all of them
	}
	_, ok = q.lead(time.Minute)
	require.True(t, ok)
}
