package fairlock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// runLine is a lock that another client holds, with three waiters of one client, one of another, and one more of the first.
type runLine struct {
	t       *testing.T
	rdb     *redis.Client
	name    string
	id      string // of the first client
	held    *holdfast.Hold
	first   *fairlock.Mutex
	other   *fairlock.Mutex
	waiters []*kindtest.Pending
	leave   [3]context.CancelFunc
	tap     *redis.PubSub
}

func newRunLine(t *testing.T, srv *redistest.Server, client redis.UniversalClient, opts ...holdfast.Option) *runLine {
	rdb := srv.Client(t)
	c := newClient(t, client, nil)
	l := &runLine{t: t, rdb: rdb, name: uniqueName(t), id: c.ID()}
	l.first, l.other = fairlock.New(c, l.name, opts...), fairlock.New(newClient(t, rdb, nil), l.name)
	l.tap = mailbox(t, rdb, l.name, c.ID())
	l.held = lock(t, l.other)
	for i := range l.leave {
		ctx, cancel := context.WithCancel(t.Context())
		l.leave[i] = cancel
		t.Cleanup(cancel)
		l.waiters = append(l.waiters, wait(ctx, t, rdb, l.first))
	}
	l.waiters = append(l.waiters, wait(t.Context(), t, rdb, l.other), wait(t.Context(), t, rdb, l.first))
	return l
}

// newRun makes one of a client that meets no faults.
func newRun(t *testing.T, opts ...holdfast.Option) *runLine {
	srv := redistest.Shared(t)
	return newRunLine(t, srv, srv.Client(t), opts...)
}

// drained lets these have their turns, in this order, and looks what is left.
func (l *runLine) drained(last *holdfast.Hold, waiters ...*kindtest.Pending) {
	drain(l.t, l.rdb, l.name, last, waiters...)
}

// runEnd is a message behind those that are counted.
const runEnd = "end of the run"

// told returns how many are named in each of the messages that the first client got so far.
func (l *runLine) told() (named []int) {
	require.NoError(l.t, l.rdb.Publish(l.t.Context(), "redisson_lock__channel:{"+l.name+"}:"+l.id, runEnd).Err())
	for {
		m, err := l.tap.ReceiveMessage(l.t.Context())
		require.NoError(l.t, err)
		if m.Payload == runEnd {
			return named
		}
		named = append(named, len(strings.Fields(m.Payload))-3)
	}
}

// TestRun: three waiters of one client that stand next to each other are granted the lock by one
// message, and keep the order of the queue. To the server it is the lock of the first.
func TestRun(t *testing.T) {
	l := newRun(t)
	unlock(t, l.held)
	h := l.waiters[0].Hold()
	require.Equal(t, []int{3}, l.told())
	require.Len(t, queued(t, l.rdb, l.name), 4, "the others keep their places")
	unlock(t, h)
	second := l.waiters[1].Hold()
	require.Equal(t, h.Owner(), second.Owner())
	require.Equal(t, h.Token()+1, second.Token())
	require.Equal(t, second.Owner(), kindtest.State(t, l.first).Owner)
	require.NoError(t, context.Cause(second.Context()))
	unlock(t, take(second.Context(), t, l.first.Lock))
	require.NoError(t, second.Extend(t.Context(), holdfast.DefaultLease))
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrReleased)
	require.Empty(t, l.told(), "handed on without the server")
	l.drained(second, l.waiters[2:]...)
}

// TestRunWithoutHandOff: who forbids hand-off is granted the lock by the server.
func TestRunWithoutHandOff(t *testing.T) {
	l := newRun(t, holdfast.NoHandoff())
	unlock(t, l.held)
	h := l.waiters[0].Hold()
	unlock(t, h)
	second := l.waiters[1].Hold()
	require.NotEqual(t, h.Owner(), second.Owner())
	l.drained(second, l.waiters[2:]...)
}

// TestRunPassesOverWhoLeft: the second of a run leaves. The third has the lock next, and no place is left behind.
func TestRunPassesOverWhoLeft(t *testing.T) {
	l := newRun(t)
	unlock(t, l.held)
	h := l.waiters[0].Hold()
	l.leave[1]()
	require.ErrorIs(t, l.waiters[1].Err(), context.Canceled)
	eventually(t, "its place is given back", func() bool { return len(queued(t, l.rdb, l.name)) == 3 })
	l.drained(h, l.waiters[2], l.waiters[3], l.waiters[4])
	require.Equal(t, []int{3, 1}, l.told())
}

// TestRunLosesItsLock: somebody forces the second of a run out. The rest of the run stands where it stood, and the places of
// those who were served go. Control: without that the lock is handed to one of them, and nobody has it for the time of a claim.
func TestRunLosesItsLock(t *testing.T) {
	lose := func(t *testing.T) (l *runLine, second *holdfast.Hold) {
		l = newRun(t)
		unlock(t, l.held)
		require.NoError(t, l.waiters[0].Hold().Unlock(t.Context()))
		second = l.waiters[1].Hold()
		kindtest.Forced(t, l.first)
		<-second.Context().Done()
		return l, second
	}
	l, second := lose(t)
	require.ErrorIs(t, second.Unlock(t.Context()), holdfast.ErrLost)
	next := l.waiters[2].Hold()
	require.Greater(t, next.Token(), second.Token())
	l.drained(next, l.waiters[3], l.waiters[4])

	defer defence.Served.Without(t)()
	l, second = lose(t)
	require.ErrorIs(t, second.Unlock(t.Context()), holdfast.ErrLost)
	require.NotEqual(t, second.Owner(), kindtest.State(t, l.first).Owner)
	require.Len(t, queued(t, l.rdb, l.name), 3, "control: the lock is for who was served")
	kindtest.InTurn(t, func(*holdfast.Hold) {}, l.waiters[2:]...) // the client that did not take the lock may be passed over at first
}

// TestReleaseOfARunMeetsFaults: a run's last unlock, or its answer, is lost. The lock is handed on once; its places are gone.
func TestReleaseOfARunMeetsFaults(t *testing.T) {
	kindtest.EachFault(t, func(t *testing.T, fault faultproxy.Action) {
		srv := redistest.Shared(t)
		rdb, proxy := kindtest.Behind(t, srv.Addr(), 200*time.Millisecond)
		l := newRunLine(t, srv, rdb)
		unlock(t, l.held)
		for _, w := range l.waiters[:2] {
			require.NoError(t, w.Hold().Unlock(t.Context()))
		}
		third := l.waiters[2].Hold()
		rule := proxy.On(script(lua.FairRelease), 1, fault)
		require.NoError(t, kindtest.Unheard(t.Context(), third))
		next := l.waiters[3].Hold()
		require.Greater(t, next.Token(), third.Token())
		l.drained(next, l.waiters[4])
		require.Equal(t, 1, rule.Count())
	})
}

// TestMessageOfARunIsLost: the client learns by its poll that the first of them was handed the lock. The others are served
// after it, in the same order. Control: the same connections, and the message arrives.
func TestMessageOfARunIsLost(t *testing.T) {
	for _, lost := range []bool{true, false} {
		srv := redistest.Shared(t)
		rdb, proxy := kindtest.Behind(t, srv.Addr(), 200*time.Millisecond)
		l := newRunLine(t, srv, rdb)
		if lost {
			proxy.LoseReplies(true)
		}
		unlock(t, l.held)
		require.Equal(t, []int{3}, l.told())
		if lost { // also at the proxy: told has published another message after it
			eventually(t, "the message is lost", func() bool { return proxy.Lost(runEnd) })
			proxy.LoseReplies(false)
		}
		first := l.waiters[0].Hold()
		unlock(t, first)
		second := l.waiters[1].Hold()
		require.Equal(t, lost, first.Owner() != second.Owner())
		l.drained(second, l.waiters[2:]...)
	}
}

// TestClientOfARunIsSilent: the client of a run is cut off in the middle of it. Its hold ends, and when its lease has ended the
// next of another client has the lock, although places of the run stand before it. When the client is heard of again, nothing
// of it is left. Control: a client that is not cut off keeps the lock for as long.
func TestClientOfARunIsSilent(t *testing.T) {
	const lease = time.Second
	for _, silent := range []bool{true, false} {
		srv := redistest.Start(t)
		rdb, proxy := kindtest.Behind(t, srv.Addr(), 100*time.Millisecond)
		l := newRunLine(t, srv, rdb, holdfast.Lease(lease))
		unlock(t, l.held)
		require.NoError(t, l.waiters[0].Hold().Unlock(t.Context()))
		second := l.waiters[1].Hold()
		if !silent {
			// Two renewals after the run has begun the lock is still its own.
			eventually(t, "the claim and a lease are over", func() bool {
				return time.Since(second.Deadline().Add(-lease)) > 0 && time.Until(second.Deadline()) > 0
			})
			l.drained(second, l.waiters[2:]...)
			continue
		}
		proxy.Silence(true)
		proxy.CutAll()
		<-second.Context().Done()
		require.ErrorIs(t, context.Cause(second.Context()), holdfast.ErrLost)
		other := l.waiters[3].Hold()
		require.Greater(t, other.Token(), second.Token())
		proxy.Silence(false)
		unlock(t, other)
		kindtest.InTurn(t, func(*holdfast.Hold) {}, l.waiters[2], l.waiters[4]) // each has kept its place, or has lost it and taken another
		empty(t, l.rdb, l.name)
	}
}

// TestCloseInARun: a client is closed while the second of a run holds the lock. The lock and all its places are given back.
func TestCloseInARun(t *testing.T) {
	srv := redistest.Shared(t)
	rdb := srv.Client(t)
	name := uniqueName(t)
	c, err := holdfast.New(rdb, nil)
	require.NoError(t, err)
	m, other := fairlock.New(c, name), fairlock.New(newClient(t, rdb, nil), name)
	held := lock(t, other)
	first, second := wait(t.Context(), t, rdb, m), wait(t.Context(), t, rdb, m)
	third, last := wait(t.Context(), t, rdb, m), wait(t.Context(), t, rdb, other)
	unlock(t, held)
	require.NoError(t, first.Hold().Unlock(t.Context()))
	h := second.Hold()
	require.NoError(t, c.Close(t.Context()))
	require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrClosed)
	require.ErrorIs(t, third.Err(), holdfast.ErrClosed)
	require.NoError(t, last.Hold().Unlock(t.Context()))
	require.Empty(t, queued(t, rdb, name))
}

// joins has waiters of two clients use a lock until a fault has happened to three scripts that ask for several places.
var joins = kindtest.Crowd{
	Clients: 2, Each: 8, Names: 1, Times: 4,
	New:     func(c *holdfast.Client, name string) holdfast.Locker { return fairlock.New(c, name) },
	Scripts: []string{lua.FairJoin.Text()},
	Hit:     script(lua.FairJoin), At: []int{3, 6, 9},
}

// TestJoinMeetsFaults: waiters of one client ask for their places by one script, and that is lost, or
// its answer, or it is executed late. Each of them is granted the lock once, and no place is left.
func TestJoinMeetsFaults(t *testing.T) { joins.Meet(t) }

// TestJoinAtAFreeLock: places are asked for together, and then the lock becomes free. It is handed to
// the first of them with the others behind it, and nobody asks once more. Control: an answer with the
// time of the grant. To the one who was granted the lock its message then seems to be an old one, and only
// the next poll helps. (Without the control no poll comes through: one in that moment is a reason to ask.)
func TestJoinAtAFreeLock(t *testing.T) {
	asksAgain := func(edits ...string) int {
		srv := redistest.Start(t)
		proxy, direct, name := faultproxy.New(t, srv.Addr()), srv.Client(t), uniqueName(t)
		rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = patience })
		join := lua.FairJoin
		if len(edits) > 0 {
			rdb.AddHook(mutant.Hook(lua.FairJoin, edits...))
			join = lua.New("mutant", strings.NewReplacer(edits...).Replace(join.Text()), 5)
		}
		require.NoError(t, direct.ScriptLoad(t.Context(), join.Text()).Err())
		m := fairlock.New(newClient(t, rdb, &holdfast.Options{RetryBudget: patience}), name)
		held := lock(t, fairlock.New(newClient(t, direct, nil), name))
		var g errgroup.Group
		use := func() error { return kindtest.Pair(t.Context(), m) }
		delayed := proxy.DelayRequest(script(join), 1, patience)
		if len(edits) == 0 {
			proxy.DelayRequest(script(lua.FairPoll), 0, time.Hour)
		}
		for started := 0; delayed.Count() == 0; started += 2 {
			g.Go(use)
			g.Go(use)
			eventually(t, "they ask", func() bool { return delayed.Count() > 0 || len(queued(t, direct, name)) == started+2 })
		}
		unlock(t, held)
		eventually(t, "all others were served", func() bool {
			return direct.Exists(t.Context(), name, "redisson_lock_queue:{"+name+"}").Val() == 0
		})
		asked := proxy.Seen(script(lua.FairAcquire))
		delayed.Release()
		require.NoError(t, g.Wait())
		proxy.Clear()
		return proxy.Seen(script(lua.FairAcquire)) - asked
	}
	again := asksAgain()
	for tries := 0; again > 0 && tries < 5; tries++ { // a busy machine may hear of a grant when its claim is over
		again = asksAgain()
	}
	require.Zero(t, again)
	require.Positive(t, asksAgain("tonumber(clock) - 1", "tonumber(clock)"), "control: each time")
}
