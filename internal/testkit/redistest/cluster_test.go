package redistest

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// other is a master that does not serve the key.
func other(t *testing.T, c *Cluster, key string) *Server {
	t.Helper()
	for _, s := range c.Masters(t) {
		if s != c.Master(t, key) {
			return s
		}
	}
	t.Fatal("there is one master only")
	return nil
}

// One cluster per version, because it takes 2 s to start: a slot moves, then masters change in
// three ways.
func TestClusterMovesSlotsAndMasters(t *testing.T) {
	each(t, func(t *testing.T, bin Option, p Program) {
		c := StartCluster(t, 3, 1, bin)
		rdb, ctx := c.Client(t), t.Context()
		require.NoError(t, rdb.Set(ctx, "{k}1", "v", time.Minute).Err())
		require.NoError(t, rdb.Set(ctx, "{k}2", "v", time.Minute).Err())
		require.Len(t, c.Masters(t), 3)

		from, to := c.Master(t, "{k}"), other(t, c, "{k}")
		m := c.BeginMove(t, "{k}", to)
		m.Key(t, "{k}1")
		_, err := from.Try("GET", "{k}1")
		require.ErrorContains(t, err, "ASK ")
		_, err = from.Try("MGET", "{k}1", "{k}2")
		if strings.HasPrefix(p.Version, "6.") {
			require.ErrorContains(t, err, "ASK ")
		} else {
			require.ErrorContains(t, err, "TRYAGAIN")
		}
		require.Equal(t, "v", from.Command(t, "GET", "{k}2"))
		require.Equal(t, "v", rdb.Get(ctx, "{k}1").Val(), "a client follows")
		m.Keys(t)
		m.Finish(t)
		require.Same(t, to, c.Master(t, "{k}"))
		_, err = from.Try("GET", "{k}2")
		require.ErrorContains(t, err, "MOVED ")
		require.Equal(t, "v", to.Command(t, "GET", "{k}2"))
		require.Greater(t, rdb.PTTL(ctx, "{k}2").Val(), 50*time.Second, "times to live move along")

		c.MoveSlot(t, "{k}", from)
		require.Same(t, from, c.Master(t, "{k}"))
		require.Equal(t, "v", rdb.Get(ctx, "{k}1").Val())

		switched := c.Switch(t, "{k}")
		require.NotSame(t, from, switched)
		require.Equal(t, "v", switched.Command(t, "GET", "{k}1"), "an agreed failover loses nothing")
		require.Eventually(t, func() bool { return role(from.Addr()) == "slave" }, patience, pollEvery)

		c.AwaitReplicas(ctx, t, "{k}")
		killed, promoted := c.KillMaster(t, "{k}")
		require.Same(t, switched, killed)
		require.Same(t, from, promoted)
		require.Equal(t, "v", promoted.Command(t, "GET", "{k}1"))
	})
}

func TestClusterReplacesAPausedMaster(t *testing.T) {
	c := StartCluster(t, 3, 1)
	c.ReplaceSilent()
	old := c.Master(t, "k")
	old.Pause()
	promoted := c.AwaitPromotion(t, "k", old)
	require.NotSame(t, old, promoted)
	old.Resume()
	require.Eventually(t, func() bool { return role(old.Addr()) == "slave" }, patience, pollEvery)
}

func TestSentinelReplacesAPrimaryOfEveryVersion(t *testing.T) {
	each(t, func(t *testing.T, bin Option, p Program) {
		s := StartSentinel(t, bin)
		require.Equal(t, p.Version, s.Sentinels[0].Version())
		rdb := s.Client(t, func(o *redis.FailoverOptions) { o.MaxRetries = -1 })
		require.NoError(t, rdb.Set(t.Context(), "k", "v", time.Minute).Err())
		s.AwaitReplica(t.Context(), t)
		s.ReplaceSilent()
		old := s.Primary(t)
		old.Pause()
		require.NotSame(t, old, s.AwaitPromotion(t, old))
		require.Eventually(t, func() bool { return rdb.Get(t.Context(), "k").Val() == "v" }, patience,
			5*time.Millisecond)
	})
}
