package rlock_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestHash: what a lock is in Redis, as Redisson keeps it, and that the state says so.
func TestHash(t *testing.T) {
	c, rdb := shared(t, nil)
	m, own := rlock.New(c, uniqueName(t)), holdfast.WithOwner(t.Context())
	h := take(own, t, m.Lock)
	require.Equal(t, map[string]string{h.Owner(): "1"}, rdb.HGetAll(t.Context(), m.Name()).Val())
	s := kindtest.State(t, m)
	require.Equal(t, holdfast.State{Owner: h.Owner(), Count: 1, Token: h.Token(), Remaining: s.Remaining, Waiters: -1}, s)
	unlock(t, h)
	require.True(t, free(t, rdb, m.Name()))
	s = kindtest.State(t, m)
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

// TestDoValue: the value is the function's, also beside an error, and none if it did not run.
func TestDoValue(t *testing.T) {
	c, rdb := shared(t, nil)
	m, failure := rlock.New(c, uniqueName(t)), errors.New("failure")
	for _, fails := range []error{nil, failure} {
		value, err := holdfast.DoValue(t.Context(), m, func(ctx context.Context) (string, error) {
			require.False(t, free(t, rdb, m.Name()))
			return "value", fails
		})
		require.Equal(t, "value", value)
		require.ErrorIs(t, err, fails)
	}
	defer unlock(t, lock(t, m))
	value, err := holdfast.DoValue(t.Context(), m, func(context.Context) (string, error) { return "value", nil }, holdfast.Wait(0))
	require.Empty(t, value)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
}

// TestHoldAtLeastInside: it counts for Do and SyncLocker, not for inner holds, nor when the time is over at the unlock.
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
	s := kindtest.State(t, p.mutex)
	require.Equal(t, holdfast.State{Owner: h.Owner(), Count: 1, Token: h.Token(), Remaining: s.Remaining, Waiters: -1}, s)
	err := refused(own, t, p.mutex.TryLock)
	require.ErrorContains(t, err, "held by "+h.Owner()+", which has unlocked and leaves the lock taken for another ")
}

// TestManyHoldsOfOneOwner: an owner knows each of its locks, however many it has, and none that it had.
func TestManyHoldsOfOneOwner(t *testing.T) {
	t.Parallel()
	const n = 100
	c, rdb := shared(t, nil)
	prefix := uniqueName(t)
	ctx := holdfast.WithOwner(t.Context())
	lock := func(i int, opts ...holdfast.Option) *holdfast.Hold {
		return take(ctx, t, rlock.New(c, prefix+strconv.Itoa(i), opts...).Lock)
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

// TestContextFamily: contexts derived from a hold's end with it and for its reason, and none costs a goroutine.
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

// TestContextParents: the end of the context given to Lock, of whatever kind, ends the hold's context, with its cause.
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

var errUser = errors.New("the user's reason")

// wrapped is a context that package context does not know.
type wrapped struct{ context.Context }

func (w wrapped) Done() <-chan struct{} { return w.Context.Done() }

// TestManyHolds: goroutines do not grow with the names that are held, and each name is renewed.
func TestManyHolds(t *testing.T) {
	const n, lease = 2000, 6 * time.Second
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	c := newClient(t, srv.Client(t), &holdfast.Options{Lease: lease})
	first := lock(t, rlock.New(c, "first"))
	before := runtime.NumGoroutine()
	holds := make([]*holdfast.Hold, n)
	each(holds, func(i int) {
		var err error
		holds[i], err = rlock.New(c, "many:"+strconv.Itoa(i)).Lock(t.Context())
		assert.NoError(t, err)
	})
	require.LessOrEqual(t, runtime.NumGoroutine(), before+4, "four batches of renewals at most")
	deadline := first.Deadline()
	eventually(t, "all are renewed", func() bool {
		return !slices.ContainsFunc(append(holds, first), func(h *holdfast.Hold) bool {
			return h.Deadline().Sub(deadline) <= lease/4
		})
	})
	each(holds, func(i int) { assert.NoError(t, holds[i].Unlock(t.Context())) })
	unlock(t, first)
	require.Zero(t, rdb.Exists(t.Context(), "first", "many:0", "many:"+strconv.Itoa(n-1)).Val())
}

// each calls f for every index, from 32 goroutines.
func each(holds []*holdfast.Hold, f func(i int)) {
	leak.Together(32, func(from int) {
		for i := from; i < len(holds); i += 32 {
			f(i)
		}
	})
}

// subscribers is how many connections of the server listen on channels.
func subscribers(rdb *redis.Client) int {
	return strings.Count(rdb.ClientList(context.Background()).Val(), " flags=P ")
}

// TestIdleClientIsSilent: after work and waiting, and its subscription's end, a client sends and holds nothing.
func TestIdleClientIsSilent(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	opts := &holdfast.Options{Lease: 3 * time.Second, Linger: 50 * time.Millisecond} // renewed every second
	m, other := rlock.New(newClient(t, srv.Client(t), opts), "a"), rlock.New(newClient(t, srv.Client(t), opts), "a")
	h := lock(t, m)
	ctx, leave := context.WithCancel(t.Context())
	waiting := begin(ctx, t, other.Lock)
	awaitSubscriber(t, rdb, "a")
	leave()
	require.ErrorIs(t, waiting.Err(), context.Canceled)
	unlock(t, h)
	eventually(t, "the subscription ends", func() bool { return subscribers(rdb) == 0 })
	srv.ResetStats(t)
	<-time.After(1500 * time.Millisecond) // nothing can be waited for: that is the point
	require.Empty(t, srv.CommandCalls(t))
	require.True(t, free(t, rdb, "a"))
}

// awaitSubscriber waits until somebody listens for the release of a lock.
func awaitSubscriber(t *testing.T, rdb *redis.Client, name string) {
	eventually(t, "a subscriber", func() bool {
		return kindtest.Listeners(t.Context(), rdb, "redisson_lock__channel:{"+name+"}") > 0
	})
}

// TestWaitingCostsNothing: three seconds of waiting under a lease of 30 s.
func TestWaitingCostsNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	holder, waiter := newClient(t, srv.Client(t), nil), newClient(t, srv.Client(t), nil)
	h := lock(t, rlock.New(holder, "a"))
	srv.ResetStats(t)
	refused(t.Context(), t, rlock.New(waiter, "a").Lock, holdfast.Wait(3*time.Second))
	calls := srv.CommandCalls(t)
	require.LessOrEqual(t, calls["evalsha"], int64(3), "the first one asks for the server's time: %v", calls)
	require.LessOrEqual(t, calls["subscribe"], int64(1), "%v", calls)
	require.LessOrEqual(t, calls["ping"], int64(1), "the one that opens the connection: %v", calls)
	unlock(t, h)
}

// TestServerRestartsEmpty: the server is killed with waiters waiting, and comes back without its
// data. The waiters get the lock one after another, the holder is told, and tokens go on growing.
func TestServerRestartsEmpty(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	opts := &holdfast.Options{Lease: 2 * time.Second}
	holder, waiter := newClient(t, srv.Client(t), opts), newClient(t, srv.Client(t), opts)
	h := lock(t, rlock.New(holder, "a"))
	var waiters []*kindtest.Pending
	for range 3 {
		waiters = append(waiters, begin(t.Context(), t, rlock.New(waiter, "a").Lock))
	}
	awaitSubscriber(t, srv.Client(t), "a")
	srv.Kill()
	srv.Restart()
	last := h.Token()
	kindtest.InTurn(t, func(h *holdfast.Hold) {
		require.Greater(t, h.Token(), last)
		last = h.Token()
	}, waiters...)
	require.ErrorIs(t, awaitEnd(t, h), holdfast.ErrLost)
}

// TestPermissions: the words for a user without a permission. (integration_test, TestWithoutAPermission, tries each of them.)
func TestPermissions(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	as := func(user string, rules ...any) *rlock.Mutex {
		args := append([]any{"acl", "setuser", user, "on", ">secret"}, rules...)
		require.NoError(t, rdb.Do(t.Context(), args...).Err())
		return rlock.New(newClient(t, srv.Client(t, func(o *redis.Options) {
			o.Username, o.Password = user, "secret"
		}), &holdfast.Options{Lease: 2 * time.Second}), "a")
	}
	stuck := lock(t, as("nodel", "~*", "&*", "+@all", "-del"))
	require.ErrorContains(t, stuck.Unlock(t.Context()), "the lock stays taken until its lease ends: this user lacks a permission")
	require.False(t, free(t, rdb, "a"))
	require.NoError(t, rdb.Del(t.Context(), "a").Err())

	holder := lock(t, rlock.New(newClient(t, srv.Client(t), nil), "a"))
	if srv.Major() >= 7 || srv.Version() >= "6.2" { // channel rules are as old as that
		deaf := as("deaf", "~*", "+@all", "resetchannels")
		_, err := deaf.Lock(t.Context())
		require.ErrorContains(t, err, "permit this user to subscribe to redisson_lock__channel:{a}")
		unlock(t, holder)
		mute := lock(t, deaf)
		require.ErrorContains(t, mute.Unlock(t.Context()), "permit this user to publish on redisson_lock__channel:{a}")
		require.True(t, free(t, rdb, "a"), "the lock is released all the same")
		return
	}
	unlock(t, holder)
}

// TestOneConnection: twenty goroutines share a pool of one.
func TestOneConnection(t *testing.T) {
	srv := redistest.Start(t)
	m := rlock.New(newClient(t, srv.Client(t, func(o *redis.Options) { o.PoolSize = 1 }), nil), "a")
	chain(t, m, 20, 10)
}
