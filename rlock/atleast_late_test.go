package rlock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// lateWays are what the network keeps until the lock has been left, and how that is done.
var lateWays = []struct {
	name          string
	extend, close bool
}{
	{name: "a renewal, unlocked"},
	{name: "a renewal, closed", close: true},
	{name: "an extension, unlocked", extend: true},
	{name: "an extension, closed", extend: true, close: true},
}

// lateAndLeft has a holder leave a lock that is to stay for a while, while the network keeps a
// renewal or an extension. It returns by how much that lengthens what was left when it comes to the
// server.
func lateAndLeft(t *testing.T, extend, closes bool, hooks ...redis.Hook) time.Duration {
	t.Helper()
	const lease = 9 * time.Second
	p := newProxied(t, nil)
	rdb := redistest.NewClient(t, p.proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = 200 * time.Millisecond })
	for _, hook := range hooks {
		rdb.AddHook(hook)
	}
	c := newClient(t, rdb, &holdfast.Options{RetryBudget: 100 * time.Millisecond})
	require.NoError(t, p.direct.ScriptLoad(t.Context(), lua.Renew.Text()).Err())
	kept := p.proxy.DelayRequest(faultproxy.Script(lua.Renew.Hash()), 1, time.Hour)
	h, err := rlock.New(c, "a").Lock(t.Context(), holdfast.Lease(lease), holdfast.HoldAtLeast(lease))
	require.NoError(t, err)
	if extend {
		require.ErrorIs(t, h.Extend(t.Context(), time.Hour), holdfast.ErrUncertain)
	}
	<-kept.Fired()
	if !closes {
		require.NoError(t, h.Unlock(t.Context()))
	}
	require.NoError(t, c.Close(t.Context()))
	left := p.direct.PTTL(t.Context(), "a").Val()
	require.Positive(t, left)
	before := p.srv.CommandCalls(t)["hexists"] // the script's question whose the lock is
	kept.Release()
	eventually(t, "it has come", func() bool { return p.srv.CommandCalls(t)["hexists"] > before })
	return p.direct.PTTL(t.Context(), "a").Val() - left
}

// TestHoldAtLeastNoLonger: what the network kept does not lengthen the time for which the lock was
// left.
func TestHoldAtLeastNoLonger(t *testing.T) {
	for _, w := range lateWays {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			require.LessOrEqual(t, lateAndLeft(t, w.extend, w.close), time.Duration(0))
		})
	}
}

// The control: as long as the hash has the owner it does.
func TestHoldAtLeastNoLongerControl(t *testing.T) {
	for _, w := range lateWays {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			require.Positive(t, lateAndLeft(t, w.extend, w.close, mutant.Hook(lua.Leave, "':h0%1'", "':h%1'")))
		})
	}
}

// TestLeftLock: a lock that was left is that of who left it, to State and in errors, and can be
// forced free. Who left it has it no more, although the answer to the first word of that was lost.
func TestLeftLock(t *testing.T) {
	p := newProxied(t, nil)
	warm(t, p)
	own := holdfast.WithOwner(t.Context())
	h, err := p.mutex.Lock(own, holdfast.HoldAtLeast(time.Hour))
	require.NoError(t, err)
	p.proxy.On(script(lua.Leave), 1, faultproxy.DropReply)
	require.NoError(t, h.Unlock(t.Context()))
	require.Zero(t, count(t, p.direct, "a", h.Owner()))
	s, err := p.mutex.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, h.Owner(), s.Owner)
	require.Equal(t, 1, s.Count)
	require.Equal(t, h.Token(), s.Token)
	_, err = p.mutex.TryLock(own)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.ErrorContains(t, err, "held by "+h.Owner()+",")
	there, err := p.mutex.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, there)
	require.True(t, free(t, p.direct, "a"))
}
