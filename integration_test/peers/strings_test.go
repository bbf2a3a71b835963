package peers_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/pgtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
)

// TestStringIsALock: what each side says while the other one has the lock.
func TestStringIsALock(t *testing.T) {
	onAllServers(t, func(t *testing.T, srv *redistest.Server) {
		ctx, rdb := t.Context(), srv.Client(t)
		m := rlock.New(newClient(t, srv.Client(t)), "orders:42", rlock.RespectStrings())
		rs := redsync.New(goredis.NewPool(rdb)).NewMutex("orders:42", redsync.WithExpiry(time.Minute))
		require.NoError(t, rs.Lock())
		_, err := m.TryLock(ctx)
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		require.ErrorContains(t, err, "to live, and holds a string, as the locks of other libraries do")
		require.NotContains(t, err.Error(), rs.Value(), "it is what the lock is released by")
		require.ErrorContains(t, kindtest.Err(m.State(ctx)), "WRONGTYPE")
		require.ErrorContains(t, kindtest.Err(m.ForceUnlock(ctx)), "WRONGTYPE")
		require.Equal(t, rs.Value(), rdb.Get(ctx, "orders:42").Val())

		granted := kindtest.Begin(ctx, t, m.Lock)
		kindtest.Eventually(t, "it waits", func() bool { return kindtest.Listeners(ctx, rdb, "redisson_lock__channel:{orders:42}") == 1 })
		require.False(t, granted.Over())
		ok, err := rs.Unlock()
		require.NoError(t, err)
		require.True(t, ok)
		h := granted.Hold()

		var taken *redsync.ErrTaken
		require.ErrorAs(t, rs.TryLock(), &taken)
		_, err = redislock.New(rdb).Obtain(ctx, "orders:42", time.Minute, nil)
		require.ErrorContains(t, err, "WRONGTYPE", "which is why its programs have to be made ready")
		require.NotErrorIs(t, err, redislock.ErrNotObtained)
		require.NoError(t, h.Unlock(ctx), "it is untouched")
	})
}

// TestStringEnds: a waiter for a string has the lock when its time to live is over or it is gone, without asking all the time.
func TestStringEnds(t *testing.T) {
	srv := redistest.Start(t)
	ctx, rdb := t.Context(), srv.Client(t)
	m := rlock.New(newClient(t, srv.Client(t)), "orders:42", rlock.RespectStrings())
	const lives = 2 * time.Second
	require.NoError(t, rdb.Set(ctx, "orders:42", "whose", lives).Err())
	before := srv.CommandCalls(t)
	h := kindtest.Take(ctx, t, m.Lock)
	after := srv.CommandCalls(t)
	asked := after["evalsha"] + after["eval"] - before["evalsha"] - before["eval"]
	t.Logf("asked %d times in %v", asked, lives)
	// One each 125 ms, the first, the one after listening, the last, and the script that was not known.
	require.LessOrEqual(t, asked, int64(lives/(125*time.Millisecond))+4)
	require.NoError(t, h.Unlock(ctx))

	require.NoError(t, rdb.Set(ctx, "orders:42", "whose", 0).Err())
	_, err := m.Lock(ctx, holdfast.Wait(300*time.Millisecond))
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.ErrorContains(t, err, "no time to live, and holds a string")
	require.ErrorContains(t, err, "if it is not a lock, choose another name")
	require.Equal(t, "whose", rdb.Get(ctx, "orders:42").Val())
}

// TestStringInThePlace: a hold whose key became a string is lost. Whatever is done with it says so, by the next
// renewal at the latest, and leaves the string alone; nothing is left for Close to give back.
func TestStringInThePlace(t *testing.T) {
	for title, end := range map[string]func(h *holdfast.Hold, m *rlock.Mutex) error{
		"unlock":   func(h *holdfast.Hold, _ *rlock.Mutex) error { return h.Unlock(t.Context()) },
		"extend":   func(h *holdfast.Hold, _ *rlock.Mutex) error { return h.Extend(t.Context(), time.Minute) },
		"re-enter": func(h *holdfast.Hold, m *rlock.Mutex) error { _, err := m.Lock(h.Context()); return err },
		"wait":     func(h *holdfast.Hold, _ *rlock.Mutex) error { <-h.Context().Done(); return context.Cause(h.Context()) },
	} {
		for release, opts := range map[string][]holdfast.Option{"DEL": nil, "leave": {holdfast.HoldAtLeast(time.Minute)}} {
			t.Run(title+", "+release, func(t *testing.T) {
				t.Parallel()
				rdb := redistest.Start(t).Client(t)
				c, err := holdfast.New(rdb, &holdfast.Options{Lease: 2 * time.Second})
				require.NoError(t, err)
				m := rlock.New(c, "orders:42", rlock.RespectStrings())
				h := kindtest.Lock(t, m, opts...)
				require.NoError(t, rdb.Set(t.Context(), "orders:42", "whose", time.Minute).Err())
				require.ErrorIs(t, end(h, m), holdfast.ErrLost)
				if title != "unlock" { // after which it is released, as far as its context knows
					require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrLost)
				}
				require.NoError(t, c.Close(t.Context()))
				require.Equal(t, "whose", rdb.Get(t.Context(), "orders:42").Val())
			})
		}
	}
}

// TestOthersRefuseTheOption: before anything is sent.
func TestOthersRefuseTheOption(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	c := newClient(t, rdb)
	for _, l := range []holdfast.Locker{fairlock.New(c, "a"), rwlock.New(c, "a"), rwlock.New(c, "a").RLocker(),
		redlock.New([]*holdfast.Client{c}, "a")} {
		_, err := l.Lock(t.Context(), rlock.RespectStrings())
		require.ErrorIs(t, err, holdfast.ErrInvalid)
		require.ErrorContains(t, err, "RespectStrings is given; only an rlock waits for strings")
	}
}

// TestInspectAString: what is looked at is said to be no lock, and nothing ends it.
func TestInspectAString(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	require.NoError(t, rdb.Set(t.Context(), "orders:42", "whose", time.Minute).Err())
	i, err := inspect.New(rdb, nil)
	require.NoError(t, err)
	l, err := i.Lock(t.Context(), "orders:42")
	require.NoError(t, err)
	require.Equal(t, inspect.Foreign, l.Kind)
	require.Empty(t, l.Holders)
	require.Len(t, l.Problems, 1)
	_, err = i.End(t.Context(), "orders:42", inspect.Grant{Token: 1})
	require.ErrorContains(t, err, "the key is a string that is not a number, so it is not a lock of this library or of Redisson")
	require.Equal(t, "whose", rdb.Get(t.Context(), "orders:42").Val())
}

// TestForceOfRueidislock: it takes the key whatever is there, and our hold is lost. Without force it is kept out, by an error.
func TestForceOfRueidislock(t *testing.T) {
	srv := redistest.Start(t)
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{srv.Addr()}}, KeyMajority: 1, FallbackSETPX: true,
	})
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	m := rlock.New(newClient(t, srv.Client(t)), "rueidislock:0:orders:42", rlock.RespectStrings(), holdfast.Lease(3*time.Second))
	h := kindtest.Lock(t, m)
	_, _, err = locker.TryWithContext(t.Context(), "orders:42")
	t.Log(err)
	require.Error(t, err)
	require.NoError(t, h.Context().Err())
	_, cancel, err := locker.ForceWithContext(t.Context(), "orders:42")
	require.NoError(t, err)
	<-h.Context().Done()
	require.ErrorIs(t, kindtest.Err(m.TryLock(t.Context())), holdfast.ErrNotAcquired)
	cancel()
	kindtest.Unlock(t, kindtest.Lock(t, m))
}

// cancelled is a context that has ended.
func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestRedsyncClaims: what docs/migrating.md says of redsync, and of the library beside it.
func TestRedsyncClaims(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	ctx, rdb := t.Context(), srv.Client(t)
	rs := redsync.New(goredis.NewPool(rdb))
	held := rs.NewMutex("taken", redsync.WithExpiry(time.Minute))
	require.NoError(t, held.Lock())

	before := srv.CommandCalls(t)["set"]
	err := rs.NewMutex("taken", redsync.WithRetryDelay(time.Millisecond)).LockContext(ctx)
	var taken *redsync.ErrTaken
	require.ErrorAs(t, err, &taken)
	require.EqualValues(t, 32, srv.CommandCalls(t)["set"]-before, "tries, by SET NX")

	err = rs.NewMutex("taken").LockContext(cancelled(t))
	require.ErrorIs(t, err, redsync.ErrFailed, "before 32 tries")
	require.NotErrorIs(t, err, context.Canceled)
	client := newClient(t, srv.Client(t))
	blocker := kindtest.Take(ctx, t, rlock.New(client, "ours").Lock)
	require.ErrorIs(t, kindtest.Err(rlock.New(client, "ours").Lock(cancelled(t))), context.Canceled)
	require.NoError(t, blocker.Unlock(ctx))

	require.Error(t, kindtest.Err(held.UnlockContext(cancelled(t))))
	require.EqualValues(t, 1, rdb.Exists(ctx, "taken").Val(), "it was not sent")
	hold := kindtest.Take(ctx, t, rlock.New(client, "ours").Lock)
	require.NoError(t, hold.Unlock(cancelled(t)))
	require.Zero(t, rdb.Exists(ctx, "ours").Val())

	require.NoError(t, rdb.Del(ctx, "taken").Err()) // the lock is lost
	ok, err := held.ExtendContext(ctx)
	require.False(t, ok)
	require.Error(t, err)
	ok, err = held.Unlock()
	require.False(t, ok)
	require.ErrorIs(t, err, redsync.ErrLockAlreadyExpired)
}

// TestRedislockClaims: the same of redislock.
func TestRedislockClaims(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	ctx, rdb := t.Context(), srv.Client(t)
	locks := redislock.New(rdb)
	held, err := locks.Obtain(ctx, "taken", time.Minute, nil)
	require.NoError(t, err)
	require.ErrorIs(t, kindtest.Err(locks.Obtain(ctx, "taken", time.Minute, nil)), redislock.ErrNotObtained)
	// Without a deadline it gives up after one TTL of its own, whatever the strategy.
	forever := &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)}
	_, err = locks.Obtain(context.WithoutCancel(ctx), "taken", 100*time.Millisecond, forever)
	require.ErrorIs(t, err, context.DeadlineExceeded) // with ErrNotObtained, unless a command was under way

	require.Error(t, held.Release(cancelled(t)))
	require.EqualValues(t, 1, rdb.Exists(ctx, "taken").Val(), "it was not sent")
	require.NoError(t, rdb.Del(ctx, "taken").Err()) // the lock is lost
	require.ErrorIs(t, held.Refresh(ctx, time.Minute, nil), redislock.ErrNotObtained)
	require.ErrorIs(t, held.Release(ctx), redislock.ErrLockNotHeld)
}

// TestRueidislockClaims: the same of rueidislock, with its own defaults but for the command that old servers do not know.
func TestRueidislockClaims(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	ctx, rdb := t.Context(), srv.Client(t)
	var lockers []rueidislock.Locker
	for range 2 {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{srv.Addr()}}, FallbackSETPX: true,
			KeyValidity: time.Minute, // a busy machine renews in time
		})
		require.NoError(t, err)
		t.Cleanup(l.Close)
		lockers = append(lockers, l)
	}
	held, cancel, err := lockers[0].WithContext(ctx, "orders:42")
	require.NoError(t, err)
	defer cancel()
	require.EqualValues(t, 1, rdb.Exists(ctx, "rueidislock:0:orders:42").Val())
	_, _, err = lockers[1].TryWithContext(ctx, "orders:42")
	require.ErrorIs(t, err, rueidislock.ErrNotLocked)

	waited := make(chan error, 1)
	go func() {
		_, cancel, err := lockers[1].WithContext(ctx, "orders:42")
		if err == nil {
			cancel()
		}
		waited <- err
	}()
	require.NoError(t, rdb.Del(ctx, "rueidislock:0:orders:42", "rueidislock:1:orders:42", "rueidislock:2:orders:42").Err())
	<-held.Done() // the lock is lost
	require.Equal(t, context.Canceled, context.Cause(held), "which says no more")
	cancel()
	require.NoError(t, <-waited)
}

// TestAdvisoryClaims: the same of PostgreSQL.
func TestAdvisoryClaims(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, err := sql.Open("pgx", pgtest.Start(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	session := func() *sql.Conn {
		c, err := db.Conn(ctx)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	try := func(c *sql.Conn) (got bool) {
		require.NoError(t, c.QueryRowContext(ctx, "SELECT pg_try_advisory_lock(42)").Scan(&got))
		return got
	}
	holder, other := session(), session()
	require.True(t, try(holder))
	require.True(t, try(holder), "a session may take it again")
	require.False(t, try(other))

	// Who came first is served first.
	order := make(chan int, 3)
	for i := range cap(order) {
		c := session()
		go func() {
			if _, err := c.ExecContext(ctx, "SELECT pg_advisory_lock(42)"); err == nil {
				order <- i
				_, _ = c.ExecContext(ctx, "SELECT pg_advisory_unlock(42)")
			}
		}()
		require.Eventually(t, func() bool {
			var waiting int
			err := db.QueryRowContext(ctx, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").Scan(&waiting)
			return err == nil && waiting == i+1
		}, patience, 5*time.Millisecond)
	}

	// The session ends, and the lock with it. Its next statement says so.
	var pid int
	require.NoError(t, holder.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid))
	require.NoError(t, kindtest.Err(other.ExecContext(ctx, "SELECT pg_terminate_backend($1)", pid)))
	for i := range cap(order) {
		require.Equal(t, i, <-order)
	}
	require.Error(t, kindtest.Err(holder.ExecContext(ctx, "SELECT 1")))
}

// TestNothingIsKept: Keep ignores a name that others lock by strings: they would not ask for it. The control is kept.
func TestNothingIsKept(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb, client := srv.Client(t), newClient(t, srv.Client(t))
	kept := func(name string, opts ...holdfast.Option) bool {
		kindtest.Unlock(t, kindtest.Lock(t, rlock.New(client, name, append(opts, rlock.Keep(time.Minute))...)))
		return rdb.Exists(t.Context(), name).Val() == 1
	}
	require.Eventually(t, func() bool {
		require.False(t, kept("strings", rlock.RespectStrings()))
		return kept("ours")
	}, patience, time.Millisecond)
}
