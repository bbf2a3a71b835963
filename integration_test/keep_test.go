package integration_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/rlock"
)

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
	t.Helper()
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
