package fairlock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
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

// line is a lock that is held by somebody who meets no faults, with waiters behind a proxy and
// others around it.
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
	// Scripts are known to the server from here on, and the mailbox of the faulty client is
	// subscribed and lingers.
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

// TestEnqueueMeetsFaults: the request for a place, or its answer, is lost. There is one place, in
// the order of arrival, and one grant.
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

// TestLeaveMeetsFaults: who leaves is taken out of the queue, whatever becomes of the first word of
// it. Control: without the undo it stays, and is in the way of the next.
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
		s, err := l.other.State(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, s.Waiters, "the lock was handed to who has left")
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
	// Pauses double from 5 ms to 1 s: when so many were lost, the lease has ended, and what may be
	// executed late is refused.
	eventually(t, "it goes on", func() bool { return lost.Count() >= 9 })
	require.Len(t, queued(t, rdb, "silent"), 1)
	proxy.Clear()
	eventually(t, "the place is given back", func() bool { return len(queued(t, rdb, "silent")) == 0 })
	unlock(t, held)
}

// TestClusterNodeHangs: a client waits at two masters, of which one does not answer. It looks after
// its place at the other one.
func TestClusterNodeHangs(t *testing.T) {
	level.ForAll(t)
	c := redistest.StartCluster(t, 3, 0, redistest.Args("--cluster-require-full-coverage", "no"))
	require.True(t, grantedElsewhere(t, c, patience))
	defer defence.Lanes.Without(t)()
	require.False(t, grantedElsewhere(t, c, 3*time.Second), "the fault is none")
}

// grantedElsewhere reports whether a lock that is deleted without a word is found by its waiter
// while another master hangs. No answer is given up in this time.
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

// TestWithReplicasInLine: who is handed the lock by a message has it when the replicas have. If
// they do not get it, the next one in line has its turn.
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
		first := lock(t, holder, holdfast.WithReplicas(1, patience))
		w := wait(t.Context(), t, rdb, m, holdfast.WithReplicas(1, patience))
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

	w := wait(t.Context(), t, rdb, m, holdfast.WithReplicas(1, soon))
	behind := wait(t.Context(), t, rdb, other)
	r.Replicas()[0].Pause()
	unlock(t, h)
	require.ErrorIs(t, w.Err(), holdfast.ErrNotReplicated)
	next := behind.Hold()
	require.NoError(t, next.Context().Err())
	unlock(t, next)
	require.Empty(t, queued(t, rdb, "a"))

	_, err = m.TryLock(t.Context(), holdfast.WithReplicas(1, soon))
	require.ErrorIs(t, err, holdfast.ErrNotReplicated)
	require.Zero(t, rdb.Exists(t.Context(), "a").Val())
	unlock(t, take(t.Context(), t, other.TryLock))
}
