package fairlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// TestHoldAtLeast: the lock stays, nobody is handed it before, and the first in the queue gets it
// then; that one has all of its own time too, though it was called by a message whose claim is
// short.
func TestHoldAtLeast(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	name := uniqueName(t)
	const d, long = 500 * time.Millisecond, time.Hour
	start := time.Now()
	h, err := fairlock.New(newClient(t, rdb, nil), name).Lock(t.Context(), holdfast.HoldAtLeast(d))
	require.NoError(t, err)
	other := fairlock.New(newClient(t, rdb, nil), name)
	got := make(chan *holdfast.Hold, 1)
	go func() {
		next, err := other.Lock(context.Background(), holdfast.HoldAtLeast(long))
		if err != nil {
			t.Error(err)
		}
		got <- next
	}()
	eventually(t, "it has a place", func() bool { return len(queued(t, rdb, name)) == 1 })
	require.NoError(t, h.Unlock(t.Context()))
	s, err := other.State(t.Context())
	require.NoError(t, err)
	if time.Since(start) < d {
		require.Equal(t, h.Owner(), s.Owner)
	}
	next := <-got
	require.NotNil(t, next)
	require.GreaterOrEqual(t, time.Since(start), d)
	require.Greater(t, next.Token(), h.Token())
	require.NoError(t, next.Unlock(t.Context()))
	require.Greater(t, rdb.PTTL(t.Context(), name).Val(), long-time.Minute)
	there, err := other.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, there)
}

// lateAndLeft has a holder leave a lock that is to stay for a minute, while the network keeps an
// extension by an hour. It returns by how much that lengthens what was left when it comes to the
// server.
func lateAndLeft(t *testing.T, hooks ...redis.Hook) time.Duration {
	t.Helper()
	srv := redistest.Start(t)
	proxy, direct := faultproxy.New(t, srv.Addr()), srv.Client(t)
	rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = 200 * time.Millisecond })
	for _, hook := range hooks {
		rdb.AddHook(hook)
	}
	c := newClient(t, rdb, &holdfast.Options{RetryBudget: 100 * time.Millisecond})
	require.NoError(t, direct.ScriptLoad(t.Context(), lua.Renew.Text()).Err())
	kept := proxy.DelayRequest(script(lua.Renew), 1, time.Hour)
	h, err := fairlock.New(c, "a").Lock(t.Context(), holdfast.HoldAtLeast(time.Minute))
	require.NoError(t, err)
	require.ErrorIs(t, h.Extend(t.Context(), time.Hour), holdfast.ErrUncertain)
	<-kept.Fired()
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, c.Close(t.Context()))
	left := direct.PTTL(t.Context(), "a").Val()
	require.Positive(t, left)
	before := srv.CommandCalls(t)["hexists"] // the script's question whose the lock is
	kept.Release()
	eventually(t, "it has come", func() bool { return srv.CommandCalls(t)["hexists"] > before })
	other := fairlock.New(newClient(t, direct, nil), "a")
	wait(t.Context(), t, direct, other)
	s, err := other.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, h.Owner(), s.Owner)
	require.Equal(t, 1, s.Waiters)
	return s.Remaining - left
}

// TestHoldAtLeastNoLonger: what the network kept does not lengthen the time for which the lock was
// left. The control: as long as the hash has the owner it does.
func TestHoldAtLeastNoLonger(t *testing.T) {
	require.LessOrEqual(t, lateAndLeft(t), time.Duration(0))
	require.Positive(t, lateAndLeft(t, mutant.Hook(lua.Leave, "':h0%1'", "':h%1'")))
}
