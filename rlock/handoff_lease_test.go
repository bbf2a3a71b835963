package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/watchdog"
)

// TestLongerLeaseIsNotHandedOn: a hold was extended, by an answer or by a request that comes late,
// or entered for longer. The next one of the client asks the server, and has the lease that it
// wants.
func TestLongerLeaseIsNotHandedOn(t *testing.T) {
	for name, lengthen := range map[string]func(t *testing.T, p *proxied, h *holdfast.Hold){
		"extended": func(t *testing.T, _ *proxied, h *holdfast.Hold) {
			require.NoError(t, h.Extend(t.Context(), time.Hour))
			require.NoError(t, h.Extend(t.Context(), holdfast.DefaultLease), "which does not shorten it")
		},
		"extended, and not answered": func(t *testing.T, p *proxied, h *holdfast.Hold) {
			require.NoError(t, p.direct.ScriptLoad(t.Context(), lua.Renew.Text()).Err())
			rule := p.proxy.On(script(lua.Renew), 1, faultproxy.HoldReply)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-rule.Fired(); cancel() }()
			require.Error(t, h.Extend(ctx, time.Hour))
			rule.Release()
		},
		"entered for longer": func(t *testing.T, p *proxied, h *holdfast.Hold) {
			unlock(t, take(h.Context(), t, p.mutex.Lock, holdfast.Lease(time.Hour)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inherits := func() bool {
				p := newProxied(t, nil)
				warm(t, p)
				l := lineUp(t.Context(), t, p.mutex, 1)
				lengthen(t, p, l.holder)
				defer defence.Look.Without(t)() // else the server is asked for that
				unlock(t, l.holder)
				h := l.next[0].Hold()
				long := p.direct.PTTL(t.Context(), "a").Val() > 2*holdfast.DefaultLease
				unlock(t, h)
				return long
			}
			require.False(t, inherits())
			if name == "extended" { // else g.lease itself, or the reply of the pass, is in the way
				defer defence.Longer.Without(t)()
				require.True(t, inherits(), "control: the next one has an hour")
			}
		})
	}
}

// TestInnerHoldDoesNotRenewForGood: a plain lease is renewed while a renewed hold in it lasts, and
// not after that.
func TestInnerHoldDoesNotRenewForGood(t *testing.T) {
	ends := func(t *testing.T) bool { // whether it ended, before it was renewed twice more
		c, _ := shared(t, nil)
		m := rlock.New(c, uniqueName(t), holdfast.Lease(2*time.Second))
		h := lock(t, m, holdfast.NoRenewal())
		inner := take(h.Context(), t, m.Lock)
		renewed := func() func() bool {
			before := h.Deadline()
			return func() bool { return h.Deadline().After(before) || context.Cause(h.Context()) != nil }
		}
		eventually(t, "it is renewed within", renewed())
		require.NoError(t, context.Cause(h.Context()))
		unlock(t, inner)
		for range 2 {
			eventually(t, "it is renewed, or ends", renewed())
		}
		defer func() { _ = h.Unlock(t.Context()) }()
		return context.Cause(h.Context()) != nil
	}
	require.True(t, ends(t))
	defer defence.Inner.Without(t)()
	require.False(t, ends(t), "control: nobody ends it")
}

// TestTryLockLeavesTheFront: a hold that was got by TryLock, while others of the client wait, goes
// back to the server, which the one in front asks. It is not handed to the one behind that.
func TestTryLockLeavesTheFront(t *testing.T) {
	first := func(t *testing.T) int {
		p := newProxied(t, nil)
		warm(t, p)
		other := lock(t, rlock.New(newClient(t, p.srv.Client(t), nil), "a"))
		l := &line{mutex: p.mutex}
		granted := begin(t.Context(), t, p.mutex.Lock) // it has the front place, and asks the server
		awaitSubscriber(t, p.direct, "a")
		l.join(t.Context(), t)
		require.NoError(t, p.direct.Del(t.Context(), "a").Err()) // free, and nobody is told
		unlock(t, take(t.Context(), t, p.mutex.TryLock))
		both := []*kindtest.Pending{granted, l.next[0]}
		i := kindtest.First(t, both...)
		_ = both[i].Hold().Unlock(t.Context())
		_ = both[1-i].Hold().Unlock(t.Context())
		_ = other.Unlock(t.Context())
		return i
	}
	require.Zero(t, first(t))
	defer defence.Front.Without(t)()
	require.Equal(t, 1, first(t), "control: it goes past the front")
}

// TestForcedOutJustBeforeAHandOff: nobody asks the server when the lock is handed on, so who
// unlocks is not told that it was forced out a moment ago. The next one is, by the renewal.
func TestForcedOutJustBeforeAHandOff(t *testing.T) {
	p := newProxied(t, &holdfast.Options{Lease: 3 * time.Second})
	warm(t, p)
	l := lineUp(t.Context(), t, p.mutex, 2)
	require.NoError(t, l.holder.Unlock(t.Context())) // asks for tokens
	holder := l.next[0].Hold()
	there, err := rlock.New(newClient(t, p.srv.Client(t), nil), "a").ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, there)
	restore := defence.Look.Without(t) // it is within 10 ms
	err = holder.Unlock(t.Context())
	restore()
	require.NoError(t, err)
	h := l.next[1].Hold()
	lost := awaitEnd(t, h)
	require.ErrorIs(t, lost, holdfast.ErrLost)
	require.ErrorIs(t, lost, watchdog.ErrGone, "a renewal said so, before its deadline")
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
	require.True(t, free(t, p.direct, "a"), "it never brings the lock back")
}
