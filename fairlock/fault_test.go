package fairlock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// line is a lock that is held by somebody who meets no faults, with waiters behind a proxy and others around it.
type line struct {
	*testing.T
	rdb    *redis.Client // around the proxy
	proxy  *faultproxy.Proxy
	held   *holdfast.Hold
	faulty *fairlock.Mutex
	other  *fairlock.Mutex
}

func newLine(t *testing.T) *line {
	srv := redistest.Start(t)
	client, proxy := kindtest.Behind(t, srv.Addr(), 200*time.Millisecond)
	l := &line{T: t, rdb: srv.Client(t), proxy: proxy}
	l.faulty, l.other = fairlock.New(newClient(t, client, nil), "line"), fairlock.New(newClient(t, l.rdb, nil), "line")
	// Scripts are known to the server from here on, and the mailbox of the faulty client is subscribed and lingers.
	h := lock(t, l.other)
	w := wait(t.Context(), t, l.rdb, l.faulty)
	unlock(t, h)
	require.NoError(t, w.Hold().Unlock(t.Context()))
	l.held = lock(t, l.other)
	return l
}

// drained unlocks, lets the waiters have their turns, in this order, and looks what is left.
func (l *line) drained(waiters ...*kindtest.Pending) {
	drain(l.T, l.rdb, "line", l.held, waiters...)
}

// overAt is a context that has ended from a moment on, and says so to those who look, but wakes nobody.
type overAt struct {
	context.Context
	over atomic.Bool
}

func (c *overAt) Err() error {
	if c.over.Load() {
		return context.Canceled
	}
	return c.Context.Err()
}

// TestAGrantForWhoHasLeft: the answer that grants the lock arrives when the wait is over, and before its waiter has woken.
// The lock is given back. (The mailbox is not subscribed, so that the waiter asks for the lock and for no place.)
func TestAGrantForWhoHasLeft(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	client, proxy := kindtest.Behind(t, srv.Addr(), patience)
	ctx := &overAt{Context: t.Context()}
	granted := make(chan struct{})
	var armed atomic.Bool
	client.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		err := send()
		if armed.CompareAndSwap(true, false) {
			ctx.over.Store(true)
			close(granted)
		}
		return err
	}))
	rdb := srv.Client(t)
	m, other := fairlock.New(newClient(t, client, nil), "a"), fairlock.New(newClient(t, rdb, nil), "a")
	unlock(t, lock(t, m)) // so that scripts are known
	h := lock(t, other)
	silent := proxy.On(faultproxy.Command("SUBSCRIBE"), 0, faultproxy.DropReply)
	before, leave := context.WithCancel(t.Context())
	first := begin(before, t, m.Lock)
	eventually(t, "the first one wants to listen", func() bool { return silent.Count() > 0 })
	unlock(t, h) // and nobody is told
	armed.Store(true)
	second := begin(ctx, t, m.Lock)
	require.ErrorIs(t, second.Err(), context.Canceled)
	<-granted
	leave()
	require.ErrorIs(t, first.Err(), context.Canceled)
	unlock(t, take(t.Context(), t, other.Lock, holdfast.Wait(patience)))
}

// TestEnqueueMeetsFaults: the request for a place, or its answer, is lost. There is one place, in order of arrival, and one grant.
func TestEnqueueMeetsFaults(t *testing.T) {
	kindtest.EachFault(t, func(t *testing.T, fault faultproxy.Action) {
		l := newLine(t)
		rule := l.proxy.On(script(lua.FairAcquire), 1, fault)
		first := wait(t.Context(), t, l.rdb, l.faulty)
		second := wait(t.Context(), t, l.rdb, l.other)
		require.Equal(t, 1, rule.Count())
		l.drained(first, second)
	})
}

// TestLeaveMeetsFaults: a leaver loses its place, whatever fault its first message meets. Control: it stays without the undo.
func TestLeaveMeetsFaults(t *testing.T) {
	leave := func(t *testing.T, l *line) *kindtest.Pending {
		ctx, cancel := context.WithCancel(t.Context())
		first := wait(ctx, t, l.rdb, l.faulty)
		second := wait(t.Context(), t, l.rdb, l.other)
		cancel()
		require.ErrorIs(t, first.Err(), context.Canceled)
		return second
	}
	kindtest.EachFault(t, func(t *testing.T, fault faultproxy.Action) {
		l := newLine(t)
		l.proxy.On(script(lua.FairRelease), 1, fault)
		second := leave(t, l)
		eventually(t, "it has left", func() bool { return len(queued(t, l.rdb, "line")) == 1 })
		l.drained(second)
	})
	t.Run("control", func(t *testing.T) {
		defer defence.Undo.Without(t)()
		l := newLine(t)
		second := leave(t, l)
		unlock(t, l.held)
		require.Equal(t, 1, kindtest.State(t, l.other).Waiters, "the lock was handed to who has left")
		require.NoError(t, second.Hold().Unlock(t.Context())) // when the claim is over
	})
}

// TestLeaveInASilentTime: the network is silent for longer than the lease when a waiter leaves. Its
// place counts for longer than that, and is given back when the network works again.
func TestLeaveInASilentTime(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	client, proxy := kindtest.Behind(t, srv.Addr(), 100*time.Millisecond)
	m := fairlock.New(newClient(t, client, &holdfast.Options{Lease: 200 * time.Millisecond}), "silent")
	other := fairlock.New(newClient(t, rdb, nil), "silent")
	held := lock(t, other)
	ctx, cancel := context.WithCancel(t.Context())
	w := wait(ctx, t, rdb, m)
	lost := proxy.On(script(lua.FairRelease), 0, faultproxy.DropRequest)
	cancel()
	require.ErrorIs(t, w.Err(), context.Canceled)
	// Pauses double from 5 ms to 1 s: when so many were lost, the lease has ended, and what may be executed late is refused.
	eventually(t, "it goes on", func() bool { return lost.Count() >= 9 })
	require.Len(t, queued(t, rdb, "silent"), 1)
	proxy.Clear()
	eventually(t, "the place is given back", func() bool { return len(queued(t, rdb, "silent")) == 0 })
	unlock(t, held)
}

// TestClusterNodeHangs: a client waits at two masters, of which one does not answer. It looks after its place at the other one.
func TestClusterNodeHangs(t *testing.T) {
	level.ForAll(t)
	c := redistest.StartCluster(t, 3, 0, redistest.Args("--cluster-require-full-coverage", "no"))
	require.True(t, grantedElsewhere(t, c, patience))
	defer defence.Lanes.Without(t)()
	require.False(t, grantedElsewhere(t, c, 3*time.Second), "the fault is none")
}

// grantedElsewhere reports whether a waiter finds a silently deleted lock while another master hangs. No answer is given up.
func grantedElsewhere(t *testing.T, c *redistest.Cluster, within time.Duration) bool {
	rdb := c.Client(t, func(o *redis.ClusterOptions) { o.ReadTimeout = 5 * time.Minute })
	client, other := newClient(t, rdb, nil), newClient(t, c.Client(t), nil)
	var names [2]string
	for i := 0; names[0] == "" || names[1] == ""; i++ {
		name := fmt.Sprint(uniqueName(t), ":", i)
		if master := slices.Index(c.Nodes, c.Master(t, name)); master < len(names) {
			names[master] = name
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	var granted [2]chan struct{}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer leave()
	for i, name := range names {
		_ = lock(t, fairlock.New(other, name))
		granted[i] = make(chan struct{})
		waiting.Go(func() {
			if h, err := fairlock.New(client, name).Lock(ctx); err == nil {
				close(granted[i])
				_ = h.Unlock(ctx)
			}
		})
		eventually(t, "it has a place", func() bool { return len(queued(t, rdb, name)) == 1 })
	}
	c.Nodes[0].Pause()
	defer c.Nodes[0].Resume()
	hanging, err := rdb.MasterForKey(t.Context(), names[0])
	require.NoError(t, err)
	eventually(t, "a poll is under way at the one that hangs", func() bool {
		stats := hanging.PoolStats()
		return stats.TotalConns > stats.IdleConns
	})
	c.Nodes[1].Command(t, "DEL", names[1])
	select {
	case <-granted[1]:
		return true
	case <-time.After(within):
		return false
	}
}

// TestWithReplicasInLine: a message's grant counts when the replicas have it. If they do not get it, the next one has its turn.
func TestWithReplicasInLine(t *testing.T) {
	r := redistest.StartReplicated(t, 1)
	r.Primary().Command(t, "WAIT", "1", "0") // a replica counts when it has spoken for the first time
	const soon = 300 * time.Millisecond
	rdb := r.Primary().Client(t)
	proxy := faultproxy.New(t, r.Primary().Addr())
	holder := fairlock.New(newClient(t, rdb, nil), "a")
	m := fairlock.New(newClient(t, redistest.NewClient(t, proxy.Addr()), nil), "a")
	other := fairlock.New(newClient(t, rdb, nil), "a")
	asks := faultproxy.Script(lua.FairAcquire.Hash())

	var h *holdfast.Hold
	// on a busy machine the message may overtake the answer that the place is there
	for told, tries := false, 0; !told; tries++ {
		require.Less(t, tries, 20, "it is told by a message")
		first := lock(t, holder, holdfast.Replicas(1, patience))
		w := wait(t.Context(), t, rdb, m, holdfast.Replicas(1, patience))
		asked := proxy.Seen(asks)
		unlock(t, first)
		h = w.Hold()
		if told = asked == proxy.Seen(asks); !told {
			unlock(t, h)
		}
	}
	require.Equal(t, "1", r.Replicas()[0].Command(t, "HGET", "a", h.Owner()))
	left, err := rdb.PTTL(t.Context(), "a").Result()
	require.NoError(t, err)
	require.Greater(t, left, 3*time.Second, "more than a claim: it is the whole lease already")

	w := wait(t.Context(), t, rdb, m, holdfast.Replicas(1, soon))
	behind := wait(t.Context(), t, rdb, other)
	r.Replicas()[0].Pause()
	unlock(t, h)
	require.ErrorIs(t, w.Err(), holdfast.ErrNotReplicated)
	next := behind.Hold()
	require.NoError(t, next.Context().Err())
	unlock(t, next)
	require.Empty(t, queued(t, rdb, "a"))

	_, err = m.TryLock(t.Context(), holdfast.Replicas(1, soon))
	require.ErrorIs(t, err, holdfast.ErrNotReplicated)
	require.Zero(t, rdb.Exists(t.Context(), "a").Val())
	unlock(t, take(t.Context(), t, other.TryLock))
}

// TestLeaveWhileAsked: a waiter whose question the network keeps leaves at once. What the question gets later is given back.
func TestLeaveWhileAsked(t *testing.T) {
	l := newLine(t)
	first := wait(t.Context(), t, l.rdb, l.faulty) // so the next one's question is asked for it
	kept := l.proxy.DelayRequest(script(lua.FairAcquire), 1, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	left := begin(ctx, t, l.faulty.Lock)
	<-kept.Fired()
	given := l.proxy.Seen(script(lua.FairRelease))
	cancel()
	require.ErrorIs(t, left.Err(), context.Canceled)
	kept.Release()
	eventually(t, "it is given back", func() bool { return l.proxy.Seen(script(lua.FairRelease)) > given })
	eventually(t, "nothing is left", func() bool { return len(queued(t, l.rdb, "line")) == 1 })
	l.drained(first)
}

// TestLeaversTogether: those who leave a queue while others of the client are given back cost one script, not one each.
// The first of them is kept on its way while the others leave.
func TestLeaversTogether(t *testing.T) {
	releases := func() int {
		const leavers = 150
		l := newLine(t)
		before := l.proxy.Seen(script(lua.FairRelease))
		ctx, cancel := context.WithCancel(t.Context())
		first := begin(ctx, t, l.faulty.Lock)
		rest, leave := context.WithCancel(t.Context())
		defer leave()
		var others []*kindtest.Pending
		for range leavers {
			others = append(others, begin(rest, t, l.faulty.Lock))
		}
		eventually(t, "places", func() bool { return len(queued(t, l.rdb, "line")) == leavers+1 })
		kept := l.proxy.DelayRequest(script(lua.FairRelease), 1, time.Hour)
		cancel()
		<-kept.Fired()
		leave()
		for _, p := range append(others, first) {
			require.ErrorIs(t, p.Err(), context.Canceled)
		}
		kept.Release()
		eventually(t, "nothing is left", func() bool { return len(queued(t, l.rdb, "line")) == 0 })
		l.drained()
		return l.proxy.Seen(script(lua.FairRelease)) - before
	}
	require.Less(t, releases(), 20)
	defer defence.Together.Without(t)()
	require.Greater(t, releases(), 100, "control: one each")
}

// TestQuestionsOvertake: questions that the network keeps do not hold up later ones. The control: without that they do.
func TestQuestionsOvertake(t *testing.T) {
	require.True(t, placedBeside(t, patience))
	defer defence.Overtake.Without(t)()
	require.False(t, placedBeside(t, 3*time.Second), "the fault is none")
}

// placedBeside reports whether a waiter gets its place while all questions that its client may have under way are unanswered.
func placedBeside(t *testing.T, within time.Duration) bool {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	slow, proxy := kindtest.Behind(t, srv.Addr(), time.Minute)
	client, other := newClient(t, slow, nil), newClient(t, rdb, nil)
	ctx, leave := context.WithCancel(t.Context())
	for _, name := range []string{"a", "b"} {
		_ = lock(t, fairlock.New(other, name))
		wait(ctx, t, rdb, fairlock.New(client, name))
	}
	const flights = 2
	var ended [flights + 1]chan struct{}
	enter := func(i int, name string) {
		ended[i] = make(chan struct{})
		go func() {
			defer close(ended[i])
			_, _ = fairlock.New(client, name).Lock(ctx)
		}()
	}
	var kept [flights]*faultproxy.Rule
	for i := range kept {
		kept[i] = proxy.DelayRequest(script(lua.FairAcquire), 1, time.Hour)
		enter(i, "a")
		<-kept[i].Fired()
	}
	enter(flights, "b")
	defer func() {
		leave()
		for i, done := range ended {
			if i < flights {
				kept[i].Release()
			}
			<-done
		}
	}()
	for end := time.Now().Add(within); time.Now().Before(end); {
		if len(queued(t, rdb, "b")) == 2 {
			return true
		}
	}
	return false
}

// lateWord has a grant's message, sent by say, come to a waiter when its claim has ended and another client has the lock.
func lateWord(t *testing.T) (w *kindtest.Pending, other *holdfast.Hold, token uint64, say func()) {
	const claim = 100 * time.Millisecond
	rdb := redistest.Shared(t).Client(t)
	name, c := uniqueName(t), newClient(t, rdb, nil)
	other = lock(t, fairlock.New(newClient(t, rdb, nil), name))
	w = wait(t.Context(), t, rdb, fairlock.New(c, name))
	granted, err := rdb.Time(t.Context()).Result()
	require.NoError(t, err)
	eventually(t, "a claim from then has ended", func() bool {
		now, err := rdb.Time(t.Context()).Result()
		return err == nil && now.After(granted.Add(2*claim))
	})
	number, token := strings.TrimPrefix(queued(t, rdb, name)[0], c.ID()+":"), other.Token()+1
	word := fmt.Sprintf("%s %d %d %d", number, token, granted.UnixMicro(), claim.Milliseconds())
	return w, other, token, func() {
		require.EqualValues(t, 1, rdb.Publish(t.Context(), "redisson_lock__channel:{"+name+"}:"+c.ID(), word).Val())
	}
}

// TestLateWord: such a word is not trusted. The waiter asks, and is granted the lock after the other one.
func TestLateWord(t *testing.T) {
	w, other, token, say := lateWord(t)
	say()
	unlock(t, other)
	h := w.Hold()
	require.Greater(t, h.Token(), token)
	unlock(t, h)
}

// TestLateWordControl: where a grant counts from when it was heard of, two are inside.
func TestLateWordControl(t *testing.T) {
	defer defence.GrantTime.Without(t)()
	w, other, token, say := lateWord(t)
	eventually(t, "it is trusted", func() bool { say(); return w.Over() })
	require.NoError(t, other.Context().Err(), "the other one has the lock")
	h := w.Hold()
	require.Equal(t, token, h.Token())
	_ = h.Unlock(t.Context())
	unlock(t, other)
}

// TestWhoHasItNow: a waiter that leaves is told who had the lock when its client looked last, and not who had it when it came.
func TestWhoHasItNow(t *testing.T) {
	const later = "3f0c2a4e-0c67-4f0e-9a52-6d9d6f1a7b11:7"
	srv := redistest.Start(t)
	rdb, proxy := srv.Client(t), faultproxy.New(t, srv.Addr())
	require.NoError(t, rdb.ScriptLoad(t.Context(), lua.FairPoll.Text()).Err()) // or the first would be seen twice
	m := fairlock.New(newClient(t, redistest.NewClient(t, proxy.Addr()), nil), "a")
	require.NoError(t, rdb.Eval(t.Context(), "redis.call('HSET', KEYS[1], ARGV[1], 1); return redis.call('PEXPIRE', KEYS[1], 60000)",
		[]string{"a"}, "3f0c2a4e-0c67-4f0e-9a52-6d9d6f1a7b11:6").Err())
	ctx, cancel := context.WithCancel(t.Context())
	left := begin(ctx, t, m.Lock)
	eventually(t, "it waits", func() bool { return len(queued(t, rdb, "a")) == 1 })
	require.NoError(t, rdb.Eval(t.Context(), "redis.call('DEL', KEYS[1]); redis.call('HSET', KEYS[1], ARGV[1], 1); return redis.call('PEXPIRE', KEYS[1], 60000)",
		[]string{"a"}, later).Err())
	polls := func() int { return proxy.Seen(faultproxy.Script(lua.FairPoll.Hash())) }
	before := polls()
	eventually(t, "its client has looked, after the answer to its question, and knows what came of it",
		func() bool { return polls() >= before+3 })
	cancel()
	err := left.Err()
	tells(t, err, holdfast.ErrNotAcquired, context.Canceled, "held by "+later+", whose lease ha")
}

// TestStoppedClientCostsOneClaim: five waiters of a client that listens and does nothing, as one that is stopped, stand before
// a live one. That is granted the lock when the first claim has ended, and the other four have kept their places.
func TestStoppedClientCostsOneClaim(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	name := uniqueName(t)
	holder, m := fairlock.New(newClient(t, rdb, nil), name), fairlock.New(newClient(t, rdb, nil), name)
	h := lock(t, holder)
	const stopped = "00000000-0000-0000-0000-000000000000"
	mailbox(t, rdb, name, stopped)
	var want []string
	for i := range 5 {
		owner := fmt.Sprintf("%s:h%d", stopped, i)
		want = append(want, owner)
		foreign(t, rdb, name, owner, 15*time.Second) // as if it was put off now
	}
	w := wait(t.Context(), t, rdb, m)
	unlock(t, h)
	h = w.Hold()
	require.Equal(t, want[1:], queued(t, rdb, name))
	unlock(t, h)
}

// TestServerForgetsPlaces: a waiter whose place is lost with all data finds out by its next poll, before places are put off.
func TestServerForgetsPlaces(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	holder, m := fairlock.New(newClient(t, rdb, nil), "forgets"),
		fairlock.New(newClient(t, srv.Client(t), nil), "forgets")
	_ = lock(t, holder)
	w := wait(t.Context(), t, rdb, m)
	eventually(t, "a poll", func() bool { return polls(t, rdb) > 0 })
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	before := polls(t, rdb)
	h := w.Hold()
	require.LessOrEqual(t, polls(t, rdb)-before, int64(2), "polls")
	unlock(t, h)
}

// polls is how often a script has counted the deadlines of those who were handed the lock, which only polls do.
func polls(t *testing.T, rdb *redis.Client) (calls int64) {
	stats, err := rdb.InfoMap(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	if text := stats["Commandstats"]["cmdstat_zcount"]; text != "" {
		require.NoError(t, kindtest.Err(fmt.Sscanf(text, "calls=%d", &calls)))
	}
	return calls
}
