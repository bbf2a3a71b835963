package redistest

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestClusterServesAndFailsOver(t *testing.T) {
	c := StartCluster(t, 3, 1)
	require.Len(t, c.Addrs(), 6)
	rdb := c.Client(t)
	ctx := t.Context()
	for _, k := range []string{"a", "b", "c", "d", "e", "f"} {
		require.NoError(t, rdb.Set(ctx, k, k, time.Minute).Err())
	}
	require.Equal(t, "master", role(c.Master(t, "a").Addr()))
	masters := map[*Server]bool{}
	for _, k := range []string{"a", "b", "c", "d", "e", "f"} {
		masters[c.Master(t, k)] = true
	}
	require.Len(t, masters, 3, "the keys are spread")

	c.AwaitReplicas(ctx, t, "a")
	before := c.Master(t, "a")
	promoted := c.Failover(t, "a")
	require.NotSame(t, before, promoted)
	require.Eventually(t, func() bool { return rdb.Get(ctx, "a").Val() == "a" }, 10*time.Second, 10*time.Millisecond)

	c.ReplaceSilent()
	promoted.Kill()
	require.Eventually(t, func() bool { return rdb.Set(ctx, "a", "again", time.Minute).Err() == nil }, 20*time.Second,
		20*time.Millisecond, "the other node takes over")
	require.NotSame(t, promoted, c.Master(t, "a"))
}

func TestSentinelFailsOver(t *testing.T) {
	s := StartSentinel(t)
	rdb := s.Client(t)
	ctx := t.Context()
	require.NoError(t, rdb.Set(ctx, "k", "v", time.Minute).Err())
	s.AwaitReplica(ctx, t)
	old := s.Primary(t)
	require.Same(t, s.Nodes[0], old)
	promoted := s.Failover(t)
	require.Same(t, s.Nodes[1], promoted)
	require.Same(t, promoted, s.Primary(t))
	s.Sentinels[0].Restart()
	require.Same(t, promoted, s.Primary(t), "a sentinel remembers")
	require.Eventually(t, func() bool { return rdb.Get(ctx, "k").Val() == "v" }, 30*time.Second, 5*time.Millisecond)
}

func TestSentinelReplacesADeadPrimary(t *testing.T) {
	s := StartSentinel(t)
	rdb := s.Client(t, func(o *redis.FailoverOptions) { o.MaxRetries = -1 })
	old := s.Primary(t)
	require.NoError(t, rdb.Set(t.Context(), "k", "v", time.Minute).Err())
	s.AwaitReplica(t.Context(), t)
	s.ReplaceSilent()
	old.Kill()
	require.NotSame(t, old, s.AwaitPromotion(t, old))
	require.Eventually(t, func() bool { return rdb.Get(t.Context(), "k").Val() == "v" }, 5*time.Second,
		5*time.Millisecond)
}
