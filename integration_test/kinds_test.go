package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// sameKeys are the kinds that have their locks in the same keys, and the scripts by which each asks
// for one.
var sameKeys = []struct {
	name    string
	lock    func(*holdfast.Client, string, ...holdfast.Option) holdfast.Locker
	acquire *lua.Script
}{
	{"rlock", func(c *holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
		return rlock.New(c, name, opts...)
	}, lua.Acquire},
	{"fairlock", func(c *holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
		return fairlock.New(c, name, opts...)
	}, lua.FairAcquire},
}

// TestKindsDoNotReenterEachOther: under a hold of one kind the other kind is refused the name,
// before anything is sent, and both go on.
func TestKindsDoNotReenterEachOther(t *testing.T) {
	for i, outer := range sameKeys {
		inner := sameKeys[1-i]
		t.Run(inner.name+" under "+outer.name, func(t *testing.T) {
			srv := redistest.Start(t)
			c := newClient(t, srv.Client(t), nil)
			h, err := outer.lock(c, "x").Lock(t.Context())
			require.NoError(t, err)
			srv.ResetStats(t)
			_, err = inner.lock(c, "x").Lock(h.Context())
			require.ErrorIs(t, err, holdfast.ErrInvalid)
			require.ErrorContains(t, err, outer.name)
			_, err = inner.lock(c, "x").TryLock(h.Context())
			require.ErrorIs(t, err, holdfast.ErrInvalid)
			calls := srv.CommandCalls(t)
			require.Zero(t, calls["evalsha"]+calls["eval"])

			other, err := inner.lock(c, "y").Lock(h.Context())
			require.NoError(t, err, "another name")
			require.NoError(t, other.Unlock(t.Context()))
			again, err := outer.lock(c, "x").Lock(h.Context())
			require.NoError(t, err, "its own kind")
			require.NoError(t, again.Unlock(t.Context()))
			require.NoError(t, h.Unlock(t.Context()))

			defer defence.OneKind.Without(t)()
			h, err = outer.lock(c, "x").Lock(t.Context())
			require.NoError(t, err)
			_, err = inner.lock(c, "x").TryLock(h.Context())
			require.ErrorIs(t, err, holdfast.ErrNotAcquired, "control: it would wait for itself")
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}

// TestKindsHaveIDsOfTheirOwn: where an attempt of one kind gets to the server under a hold of the
// other, and is repeated, it is refused, and the other's hash is left alone.
func TestKindsHaveIDsOfTheirOwn(t *testing.T) {
	defer defence.OneKind.Without(t)() // else it would never get there
	for i, outer := range sameKeys {
		inner := sameKeys[1-i]
		attempt := func(t *testing.T) error {
			srv := redistest.Start(t)
			proxy := faultproxy.New(t, srv.Addr())
			c, direct := newClient(t, redistest.NewClient(t, proxy.Addr()), nil), srv.Client(t)
			h, err := outer.lock(c, "x").Lock(t.Context())
			require.NoError(t, err)
			rule := proxy.On(faultproxy.Script(inner.acquire.Hash()), 1, faultproxy.DropReply)
			second, err := inner.lock(c, "x").TryLock(h.Context())
			require.Equal(t, 1, rule.Count())
			if err == nil {
				require.NoError(t, second.Unlock(t.Context()))
				require.Zero(t, direct.Exists(t.Context(), "x").Val(), "free under a hold that lives")
			}
			require.NoError(t, context.Cause(h.Context()))
			_ = h.Unlock(t.Context())
			return err
		}
		t.Run(inner.name+" under "+outer.name, func(t *testing.T) {
			require.ErrorIs(t, attempt(t), holdfast.ErrNotAcquired)
			defer defence.KindIDs.Without(t)()
			require.NoError(t, attempt(t), "control: it is taken for the other's holder")
		})
	}
}

// TestKept: on every topology a lock is kept, and called back by another client before it is idle for
// too long. In a cluster that does not know who listens, before Redis 7, it is not kept.
func TestKept(t *testing.T) {
	topology.Each(t, topology.Single|topology.Replicated|topology.Sentinel|topology.Cluster,
		func(t *testing.T, top topology.Topology) {
			names := []string{"orders:42"}
			if top.Kind() == topology.Cluster {
				names = append(names, "{orders}:43", "x", "y", "z")
			}
			for _, name := range names {
				keptAndCalled(t, func() redis.UniversalClient { return top.Connect(t) }, name)
			}
		})
}

func keptAndCalled(t *testing.T, connect func() redis.UniversalClient, name string) {
	rdb := connect()
	m := rlock.New(newClient(t, rdb, nil), name, holdfast.Keep(time.Hour))
	var last uint64
	pair := func() (kept bool) {
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.Greater(t, h.Token(), last)
		last = h.Token()
		require.NoError(t, h.Unlock(t.Context()))
		state, err := m.State(t.Context())
		require.NoError(t, err)
		return state.Owner == h.Owner()
	}
	if c, cluster := rdb.(*redis.ClusterClient); cluster && c.Do(t.Context(), "PUBSUB", "SHARDNUMSUB", "x").Err() != nil {
		for range 20 {
			require.False(t, pair(), "who waits is not known")
		}
	} else {
		require.Eventually(t, pair, patience, time.Millisecond)
	}
	h, err := rlock.New(newClient(t, connect(), nil), name).Lock(t.Context())
	require.NoError(t, err)
	require.Greater(t, h.Token(), last)
	require.NoError(t, h.Unlock(t.Context()))
}
