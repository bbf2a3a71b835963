package rlock_test

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

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
		h, err := rlock.New(c, "many:"+strconv.Itoa(i)).Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		holds[i] = h
	})
	require.LessOrEqual(t, runtime.NumGoroutine(), before+4, "four batches of renewals at most")
	deadline := first.Deadline()
	eventually(t, "all are renewed", func() bool {
		return !slices.ContainsFunc(append(holds, first), func(h *holdfast.Hold) bool {
			return h.Deadline().Sub(deadline) <= lease/4
		})
	})
	each(holds, func(i int) {
		if err := holds[i].Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
	unlock(t, first)
	require.Zero(t, rdb.Exists(t.Context(), "first", "many:0", "many:"+strconv.Itoa(n-1)).Val())
}

// each calls f for every index, from 32 goroutines.
func each(holds []*holdfast.Hold, f func(i int)) {
	var group sync.WaitGroup
	for from := range 32 {
		group.Go(func() {
			for i := from; i < len(holds); i += 32 {
				f(i)
			}
		})
	}
	group.Wait()
}

// subscribers is how many connections of the server listen on channels.
func subscribers(rdb *redis.Client) int {
	return strings.Count(rdb.ClientList(context.Background()).Val(), " flags=P ")
}

// TestIdleClientIsSilent: after work and waiting, a client whose subscription has ended sends
// nothing and holds neither a connection for messages nor a key.
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
	t.Helper()
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

// TestPermissions: the words for a user who may not do what a lock needs. (That each permission is missed is shown
// by integration_test, TestWithoutAPermission.)
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
