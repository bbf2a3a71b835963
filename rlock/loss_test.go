package rlock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

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

// TestTokensGrow: over clients, expiry, FLUSHALL, a token from the future (the clock was set back)
// and SCRIPT FLUSH. The control is what a counter would do.
func TestTokensGrow(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	var last uint64
	grow := func(what string) {
		t.Helper()
		h := lock(t, rlock.New(newClient(t, srv.Client(t), nil), "a"))
		require.Greater(t, h.Token(), last, what)
		require.Less(t, h.Token(), uint64(1)<<53, what)
		last = h.Token()
		unlock(t, h)
		require.Positive(t, rdb.PTTL(t.Context(), "redisson_lock_token:{a}").Val(),
			"the token's key has a time to live")
	}
	grow("first")
	grow("another client")
	counter := func() int64 { return rdb.Incr(t.Context(), "counter").Val() }
	before := counter()
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	require.LessOrEqual(t, counter(), before, "control: a counter begins again")
	grow("FLUSHALL")
	require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
	grow("SCRIPT FLUSH")
	future := last + uint64(time.Hour.Microseconds())
	require.NoError(t, rdb.Set(t.Context(), "redisson_lock_token:{a}", future, time.Hour).Err())
	last = future
	grow("the clock was set back an hour")
	require.Equal(t, future+1, last)
	require.NoError(t, rdb.Set(t.Context(), "redisson_lock_token:{a}", 7, time.Hour).Err())
	last = 7
	grow("a counter of Redisson's")
}

// TestScriptFlush: the server forgets the scripts at every step.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	m := rlock.New(newClient(t, srv.Client(t), &holdfast.Options{Lease: 3 * time.Second}), "a")
	flush := func() { require.NoError(t, rdb.ScriptFlush(t.Context()).Err()) }
	h := lock(t, m)
	flush()
	inner := take(h.Context(), t, m.Lock)
	flush()
	before := h.Deadline()
	eventually(t, "renewed", func() bool { return h.Deadline().After(before) })
	flush()
	unlock(t, inner)
	flush()
	unlock(t, h)
	require.True(t, free(t, rdb, "a"))
}

// TestOutOfMemory: Redis refuses writes. The lock says so; who holds one can still renew and
// unlock.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	c := newClient(t, srv.Client(t), &holdfast.Options{Lease: 3 * time.Second})
	m := rlock.New(c, "a")
	h := lock(t, m)
	inner := take(h.Context(), t, m.Lock)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.ErrorContains(t, rdb.HIncrBy(t.Context(), "x", "y", 1).Err(), "OOM", "control: the server is full")

	_, err := rlock.New(c, "b").Lock(t.Context())
	require.ErrorContains(t, err, "OOM")
	before := h.Deadline()
	eventually(t, "renewed", func() bool { return h.Deadline().After(before) })
	unlock(t, inner)
	require.Equal(t, 1, count(t, rdb, "a", h.Owner()))
	unlock(t, h)
	require.True(t, free(t, rdb, "a"))
	require.True(t, free(t, rdb, "b"))
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
