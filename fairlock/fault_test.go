package fairlock_test

import (
	"context"
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
	t.Helper()
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
	l.Helper()
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
