package engine

import (
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
)

// TestBlockedByAnotherWait: the wait that would have been told of ends before it is. The next one for the same
// holder is told of, once.
func TestBlockedByAnotherWait(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	log := &logged{Handler: slog.DiscardHandler}
	c, err := New(rdb, &Options{Logger: slog.New(log), LongWait: time.Second})
	require.NoError(t, err)
	b := &Lock{Asker: Asker{Client: c}, Key: queue.Key{Kind: "rlock", Name: "a"}}
	holder := newGrant(b, newOwner(), "holder", &request{})
	holder.live, holder.granted = true, time.Now()
	wait := func() longWait {
		g := newGrant(b, newOwner(), "waiter", &request{})
		c.waits.enter(&g.asked.stand, g, 0)
		stand := &g.asked.stand
		return longWait{old: old{stand, g, stand.number}, g: g, waited: time.Minute, under: []*grant{holder}}
	}
	l, later := newLookout(c), time.Now().Add(time.Minute)
	ended := wait()
	c.waits.leave(ended.spot)
	l.blocked.look(l, []longWait{ended}, later)
	for range 2 {
		l.blocked.look(l, []longWait{wait()}, later)
	}
	require.NoError(t, c.Close(t.Context())) // which waits for the records
	require.EqualValues(t, 1, log.n.Load())
}

// crowded are the long waits that are looked at of a client in which hundreds only wait, and have come before one
// whose caller has another lock.
func crowded(t *testing.T) (holding int) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	c, err := New(rdb, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(t.Context())) }()
	lock := func(name string) *Lock {
		return &Lock{Asker: Asker{Client: c}, Key: queue.Key{Kind: "rlock", Name: name}}
	}
	var list []old
	wait := func(o *owner) {
		g := newGrant(lock("wanted"), o, "waiter", &request{ctx: t.Context()})
		list = append(list, old{&g.asked.stand, g, uint64(len(list))}) //nolint:gosec // few
	}
	for range mostLooked + 1 {
		wait(newOwner())
	}
	o := newOwner()
	has := newGrant(lock("has"), o, "holder", &request{ctx: t.Context()})
	has.live = true
	o.mu.Lock()
	o.addLocked(has)
	o.mu.Unlock()
	wait(o)
	l := newLookout(c)
	l.past = []mark{{time.Now(), uint64(len(list))}}
	for _, w := range l.longOnes(list, time.Now()) {
		if len(w.under) > 0 {
			holding++
		}
	}
	return holding
}

// TestLookedAtInACrowd: who holds something is looked at behind any number of those who only wait.
func TestLookedAtInACrowd(t *testing.T) { require.Equal(t, 1, crowded(t)) }

// TestLookedAtInACrowdControl: with one number for all it is not, and a circle would not be seen.
func TestLookedAtInACrowdControl(t *testing.T) {
	defer defence.OwnNumber.Without(t)()
	require.Zero(t, crowded(t))
}

// TestNoteKeepsTheLastQuestion: what counts is the answer to the question that was sent last, and not
// the answer that came last.
func TestNoteKeepsTheLastQuestion(t *testing.T) {
	var n Note
	first := time.Now()
	second := first.Add(time.Nanosecond)
	says := func(owner string) remote.Blocker { return remote.Blocker{Left: time.Second, Owner: owner} }
	n.Hear(second, says("new"))
	n.Hear(first, says("old"))
	require.Equal(t, "new", n.Said().Owner)
	n.Free(first)
	require.Equal(t, "new", n.Said().Owner)
	n.Free(second)
	require.Zero(t, n.Said())
	n.Hear(first, says("old"))
	require.Zero(t, n.Said())
}
