package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestHoldAtLeastInside: Do and SyncLocker leave the lock like Unlock, inner holds do not count,
// and one that is held for longer than that is released as ever.
func TestHoldAtLeastInside(t *testing.T) {
	c, rdb := shared(t, nil)
	m := rlock.New(c, uniqueName(t), holdfast.HoldAtLeast(time.Minute))
	require.NoError(t, holdfast.Do(t.Context(), m, func(context.Context) error { return nil }))
	require.False(t, free(t, rdb, m.Name()))

	m = rlock.New(c, uniqueName(t)+"-sync", holdfast.HoldAtLeast(time.Minute))
	l := holdfast.SyncLocker(t.Context(), m)
	l.Lock()
	l.Unlock() //nolint:staticcheck // an empty section
	require.False(t, free(t, rdb, m.Name()))

	m = rlock.New(c, uniqueName(t)+"-nested")
	h := lock(t, m)
	unlock(t, take(h.Context(), t, m.Lock, holdfast.HoldAtLeast(time.Minute)), h)
	require.True(t, free(t, rdb, m.Name()), "the outermost counts")

	h = lock(t, m, holdfast.HoldAtLeast(time.Millisecond))
	<-time.After(10 * time.Millisecond) // the time that is to pass
	unlock(t, h)
	require.True(t, free(t, rdb, m.Name()))
}

// TestHoldAtLeastClosedInOutage: a client that is closed does not wait for the time to be over, nor
// give the lock back before.
func TestHoldAtLeastClosedInOutage(t *testing.T) {
	p := newProxied(t, &holdfast.Options{Lease: time.Hour, RetryBudget: 100 * time.Millisecond})
	h := lock(t, p.mutex, holdfast.HoldAtLeast(time.Hour/2))
	p.proxy.Stop()
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrUnavailable)
	p.proxy.Start()
	require.NoError(t, p.client.Close(t.Context()))
	require.False(t, free(t, p.direct, "a"))
}

// TestLeftLock: a lock that was left is that of who left it, to State and in errors. Who left it has it
// no more, although the answer to the first word of that was lost.
func TestLeftLock(t *testing.T) {
	p := newProxied(t, nil)
	warm(t, p)
	own := holdfast.WithOwner(t.Context())
	h := take(own, t, p.mutex.Lock, holdfast.HoldAtLeast(time.Hour))
	p.proxy.On(script(lua.Leave), 1, faultproxy.DropReply)
	unlock(t, h)
	require.Zero(t, count(t, p.direct, "a", h.Owner()))
	s, err := p.mutex.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, holdfast.State{Owner: h.Owner(), Count: 1, Token: h.Token(), Remaining: s.Remaining, Waiters: -1}, s)
	err = refused(own, t, p.mutex.TryLock)
	require.ErrorContains(t, err, "held by "+h.Owner()+",")
}
