package peers_test

import (
	"context"
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
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
)

// TestStringIsALock: what each side says while the other one has the lock.
func TestStringIsALock(t *testing.T) {
	onAllServers(t, func(t *testing.T, srv *redistest.Server) {
		ctx, rdb := t.Context(), srv.Client(t)
		m := rlock.New(newClient(t, srv.Client(t)), "orders:42", holdfast.RespectStrings())
		rs := redsync.New(goredis.NewPool(rdb)).NewMutex("orders:42", redsync.WithExpiry(time.Minute))
		require.NoError(t, rs.Lock())
		_, err := m.TryLock(ctx)
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		require.ErrorContains(t, err, "to live, and holds a string, as the locks of other libraries do")
		require.NotContains(t, err.Error(), rs.Value(), "it is what the lock is released by")
		_, err = m.State(ctx)
		require.ErrorContains(t, err, "WRONGTYPE")
		_, err = m.ForceUnlock(ctx)
		require.ErrorContains(t, err, "WRONGTYPE")
		require.Equal(t, rs.Value(), rdb.Get(ctx, "orders:42").Val())

		granted := make(chan *holdfast.Hold, 1)
		go func() {
			h, err := m.Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			granted <- h
		}()
		channel := "redisson_lock__channel:{orders:42}"
		require.Eventually(t, func() bool { return rdb.PubSubNumSub(ctx, channel).Val()[channel] == 1 }, patience,
			time.Millisecond, "it waits")
		require.Empty(t, granted)
		ok, err := rs.Unlock()
		require.NoError(t, err)
		require.True(t, ok)
		h := <-granted

		var taken *redsync.ErrTaken
		require.ErrorAs(t, rs.TryLock(), &taken)
		_, err = redislock.New(rdb).Obtain(ctx, "orders:42", time.Minute, nil)
		require.ErrorContains(t, err, "WRONGTYPE", "which is why its programs have to be made ready")
		require.NotErrorIs(t, err, redislock.ErrNotObtained)
		require.NoError(t, h.Unlock(ctx), "it is untouched")
	})
}

// TestStringEnds: whoever waits for a string has the lock when the string's time to live is over, or when it
// is gone, and does not ask all the time meanwhile.
func TestStringEnds(t *testing.T) {
	srv := redistest.Start(t)
	ctx, rdb := t.Context(), srv.Client(t)
	m := rlock.New(newClient(t, srv.Client(t)), "orders:42", holdfast.RespectStrings())
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
	require.ErrorContains(t, err, "if that is no lock, choose another name")
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
				m := rlock.New(c, "orders:42", holdfast.RespectStrings())
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
		_, err := l.Lock(t.Context(), holdfast.RespectStrings())
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
	require.ErrorContains(t, err, "the key is a text that is no number, and no lock of this library or of Redisson")
	require.Equal(t, "whose", rdb.Get(t.Context(), "orders:42").Val())
}

// TestForceOfRueidislock: it takes the key whatever is there, and our hold is lost. Without force it is kept
// out, by an error.
func TestForceOfRueidislock(t *testing.T) {
	srv := redistest.Start(t)
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{srv.Addr()}}, KeyMajority: 1, FallbackSETPX: true,
	})
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	m := rlock.New(newClient(t, srv.Client(t)), "rueidislock:0:orders:42", holdfast.RespectStrings(), holdfast.Lease(3*time.Second))
	h := kindtest.Lock(t, m)
	_, _, err = locker.TryWithContext(t.Context(), "orders:42")
	t.Log(err)
	require.Error(t, err)
	require.NoError(t, h.Context().Err())
	_, cancel, err := locker.ForceWithContext(t.Context(), "orders:42")
	require.NoError(t, err)
	<-h.Context().Done()
	_, err = m.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	cancel()
	h = kindtest.Lock(t, m)
	require.NoError(t, h.Unlock(t.Context()))
}
