package rlock_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestHash: what a lock is in Redis, as Redisson keeps it, and that the state says so.
func TestHash(t *testing.T) {
	c, rdb := shared(t, nil)
	m, own := rlock.New(c, uniqueName(t)), holdfast.WithOwner(t.Context())
	h := take(own, t, m.Lock)
	require.Equal(t, map[string]string{h.Owner(): "1"}, rdb.HGetAll(t.Context(), m.Name()).Val())
	s, err := m.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, holdfast.State{Owner: h.Owner(), Count: 1, Token: h.Token(), Remaining: s.Remaining, Waiters: -1}, s)
	unlock(t, h)
	require.True(t, free(t, rdb, m.Name()))
	s, err = m.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, holdfast.State{Token: h.Token(), Waiters: -1}, s)
	again := take(own, t, m.Lock)
	second := take(own, t, rlock.New(c, uniqueName(t)+"-second").Lock)
	require.Equal(t, h.Owner(), again.Owner(), "the owner is the context's")
	require.Equal(t, h.Owner(), second.Owner(), "for each name")
	unlock(t, again, second)
}

// TestForceUnlockLeavesOthersAlone: what is at the name and is no lock is not deleted.
func TestForceUnlockLeavesOthersAlone(t *testing.T) {
	c, rdb := shared(t, nil)
	m := rlock.New(c, uniqueName(t))
	for _, field := range []string{"name", "mode", "110cc421-94e6-4f2e-9a4b-2f6b5d8a7c11:47:write"} {
		require.NoError(t, rdb.HSet(t.Context(), m.Name(), field, "Ann", "balance", 100).Err())
		there, err := m.ForceUnlock(t.Context())
		require.ErrorContains(t, err, "not released: its key has no time to live, and ")
		require.False(t, there)
		require.Equal(t, int64(1), rdb.Del(t.Context(), m.Name()).Val(), "it is still there")
	}
}

// TestSyncLockerOfNil: it panics, as it cannot return an error.
func TestSyncLockerOfNil(t *testing.T) {
	require.PanicsWithValue(t, "holdfast: unlock of unlocked lock of nil", holdfast.SyncLocker(t.Context(), nil).Unlock)
	require.Panics(t, holdfast.SyncLocker(t.Context(), nil).Lock)
}

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

// TestManyHoldsOfOneOwner: an owner knows each of its locks, however many it has, and none that it
// had.
func TestManyHoldsOfOneOwner(t *testing.T) {
	t.Parallel()
	const n = 100
	c, rdb := shared(t, nil)
	prefix := uniqueName(t)
	ctx := holdfast.WithOwner(t.Context())
	lock := func(i int, opts ...holdfast.Option) *holdfast.Hold {
		h := take(ctx, t, rlock.New(c, prefix+strconv.Itoa(i), opts...).Lock)
		return h
	}
	var holds []*holdfast.Hold
	for range 2 { // the second time they are re-entries
		for i := range n {
			holds = append(holds, lock(i))
		}
	}
	for i, h := range holds {
		require.Equal(t, 1+i/n, h.Count())
		require.Equal(t, holds[0].Owner(), h.Owner())
	}
	for i := len(holds) - 1; i >= 0; i -= 2 {
		unlock(t, holds[i])
	}
	for i := len(holds) - 2; i >= 0; i -= 2 {
		unlock(t, holds[i])
	}
	for i := range n {
		require.True(t, free(t, rdb, prefix+strconv.Itoa(i)))
		holds[i] = lock(i, holdfast.NoRenewal(), holdfast.Lease(time.Second))
		require.Equal(t, 1, holds[i].Count())
	}
	for i := range n {
		require.ErrorIs(t, awaitEnd(t, holds[i]), holdfast.ErrLost)
	}
	for i := range n {
		require.Equal(t, 1, lock(i).Count(), "after a loss it is a new grant")
	}
}

// TestContextFamily: contexts derived from a hold's end with it and for its reason, and none costs
// a goroutine.
func TestContextFamily(t *testing.T) {
	const n = 1000
	c, _ := shared(t, nil)
	h := lock(t, rlock.New(c, uniqueName(t)))
	ctx := h.Context()
	before := runtime.NumGoroutine()
	var children []context.Context
	called := make(chan struct{}, n)
	for range n {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		timed, cancel := context.WithTimeout(child, time.Hour)
		defer cancel()
		own, cancelCause := context.WithCancelCause(context.WithValue(ctx, t, 0))
		defer cancelCause(nil)
		defer context.AfterFunc(ctx, func() { called <- struct{}{} })()
		children = append(children, child, timed, own)
	}
	require.Less(t, runtime.NumGoroutine(), before+n/2)
	require.NoError(t, context.Cause(children[1]))
	unlock(t, h)
	for _, child := range children {
		require.ErrorIs(t, child.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(child), holdfast.ErrReleased)
	}
	for range n {
		<-called
	}
	free := context.WithoutCancel(ctx)
	require.NoError(t, free.Err())
	require.NoError(t, context.Cause(free))
}

// TestContextParents: the end of the Lock call's context is the hold's context's, with its cause,
// whatever kind of context it was.
func TestContextParents(t *testing.T) {
	c, _ := shared(t, nil)
	own, cancel := context.WithCancelCause(t.Context())
	for name, parent := range map[string]context.Context{"of package context": own, "a user's": wrapped{own}} {
		h := take(parent, t, rlock.New(c, uniqueName(t)).Lock)
		defer func() {
			require.ErrorIs(t, awaitEnd(t, h), errUser, name)
			unlock(t, h)
		}()
		require.NoError(t, h.Context().Err(), name)
	}
	cancel(errUser)
}

// wrapped is a context that package context does not know.
var errUser = errors.New("the user's reason")

type wrapped struct{ context.Context }

func (w wrapped) Done() <-chan struct{} { return w.Context.Done() }
