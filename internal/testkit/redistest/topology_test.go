package redistest

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// has waits until a client, which may still ask the server of before, has a key.
func has(t *testing.T, rdb redis.Cmdable, key string) {
	t.Helper()
	require.Eventually(t, func() bool { return rdb.Get(t.Context(), key).Val() == "v" }, 3*patience, pollEvery)
}

// TestClusterMovesSlotsAndMasters: a slot moves, then masters change in four ways, in one cluster, because it takes 2 s
// to start.
func TestClusterMovesSlotsAndMasters(t *testing.T) {
	each(t, func(t *testing.T, bin Option, p Program) {
		c := StartCluster(t, 3, 1, bin)
		rdb, ctx := c.Client(t), t.Context()
		require.NoError(t, rdb.Set(ctx, "{k}1", "v", time.Minute).Err())
		require.NoError(t, rdb.Set(ctx, "{k}2", "v", time.Minute).Err())
		masters := c.Masters(t)
		require.Len(t, masters, 3)

		from, to := c.Master(t, "{k}"), masters[0]
		if from == to {
			to = masters[1]
		}
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
		has(t, rdb, "{k}1")
		m.Keys(t)
		m.Finish(t)
		require.Same(t, to, c.Master(t, "{k}"))
		_, err = from.Try("GET", "{k}2")
		require.ErrorContains(t, err, "MOVED ")
		require.Equal(t, "v", to.Command(t, "GET", "{k}2"))
		require.Greater(t, rdb.PTTL(ctx, "{k}2").Val(), 50*time.Second, "times to live move along")

		c.MoveSlot(t, "{k}", from)
		require.Same(t, from, c.Master(t, "{k}"))
		switched := c.Switch(t, "{k}")
		require.NotSame(t, from, switched)
		require.Equal(t, "v", switched.Command(t, "GET", "{k}1"), "an agreed failover loses nothing")

		c.AwaitReplicas(ctx, t, "{k}")
		killed, promoted := c.KillMaster(t, "{k}")
		require.Same(t, switched, killed)
		require.Same(t, from, promoted)
		require.Equal(t, "v", promoted.Command(t, "GET", "{k}1"))

		killed.Restart()
		awaitLink(t, killed)
		c.ReplaceSilent() // also the one that was started anew
		promoted.Pause()
		require.Same(t, killed, c.AwaitPromotion(t, "{k}", promoted))
		promoted.Resume()
		awaitLink(t, promoted)
		require.Eventually(t, func() bool { return len(c.Replicas(t, "{k}")) == 1 }, patience, pollEvery)
		require.Same(t, promoted, c.Failover(t, "{k}"))
		has(t, rdb, "{k}1")
	})
}

// TestSentinelsReplaceThePrimary when they are told to, and when it is silent.
func TestSentinelsReplaceThePrimary(t *testing.T) {
	each(t, func(t *testing.T, bin Option, p Program) {
		s := StartSentinel(t, bin)
		require.Equal(t, p.Version, s.Sentinels[0].Version())
		written := func(s *Sentinel) *redis.Client {
			rdb := s.Client(t)
			require.NoError(t, rdb.Set(t.Context(), "k", "v", time.Minute).Err())
			s.AwaitReplica(t.Context(), t)
			return rdb
		}
		rdb := written(s)
		require.Same(t, s.Nodes[0], s.Primary(t))
		promoted := s.Failover(t)
		require.Same(t, s.Nodes[1], promoted)
		has(t, rdb, "k")

		silent := StartSentinel(t, bin)
		rdb = written(silent)
		silent.ReplaceSilent()
		silent.Nodes[0].Kill()
		require.Same(t, silent.Nodes[1], silent.AwaitPromotion(t, silent.Nodes[0]))
		has(t, rdb, "k")
	})
}
