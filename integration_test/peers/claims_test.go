package peers_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/pgtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

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
	_, err = rlock.New(client, "ours").Lock(cancelled(t))
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, blocker.Unlock(ctx))

	_, err = held.UnlockContext(cancelled(t))
	require.Error(t, err)
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
	_, err = locks.Obtain(ctx, "taken", time.Minute, nil)
	require.ErrorIs(t, err, redislock.ErrNotObtained)
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

// TestRueidislockClaims: the same of rueidislock, with its own defaults but for the command that old servers
// do not know.
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
	_, err = other.ExecContext(ctx, "SELECT pg_terminate_backend($1)", pid)
	require.NoError(t, err)
	for i := range cap(order) {
		require.Equal(t, i, <-order)
	}
	_, err = holder.ExecContext(ctx, "SELECT 1")
	require.Error(t, err)
}

// TestNothingIsKept: under a name that others lock by strings, Keep does nothing: they would not ask for it.
// The control is kept, as soon as its client listens to those who ask.
func TestNothingIsKept(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb, client := srv.Client(t), newClient(t, srv.Client(t))
	kept := func(name string, opts ...holdfast.Option) bool {
		hold := kindtest.Lock(t, rlock.New(client, name, append(opts, holdfast.Keep(time.Minute))...))
		require.NoError(t, hold.Unlock(t.Context()))
		return rdb.Exists(t.Context(), name).Val() == 1
	}
	require.Eventually(t, func() bool {
		require.False(t, kept("strings", holdfast.RespectStrings()))
		return kept("ours")
	}, patience, time.Millisecond)
}
