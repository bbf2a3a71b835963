package integration_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestWaitersAreAtTheMaster: while all kinds are waited for, the master of their shard and its replica change
// places. The new master counts all who listen, and the old one, which accepts subscriptions, has none. So all
// who wait are woken, though no lease ends. (The control of the defence is one of package pubsub: there
// the map of slots is known to be out of date.)
func TestWaitersAreAtTheMaster(t *testing.T) {
	level.ForAll(t)
	t.Parallel()
	c := redistest.StartCluster(t, 2, 1)
	if c.Nodes[0].Major() < 7 {
		t.Skip("classic channels may be at any node")
	}
	nodes := func() (all []topology.Node) {
		for _, s := range c.Nodes {
			all = append(all, s)
		}
		return all
	}
	p := newPair(t, c.Client(t), c.Client(t), nodes, &holdfast.Options{Lease: time.Hour})
	const tag = "{all}"
	members := p.family(tag)
	at := func(s *redistest.Server) int { return len(channels([]topology.Node{s}, "SHARDCHANNELS", tag)) }
	old := c.Master(t, tag)
	eventually(p.ctx, t, "all listen", func() bool { return at(old) >= len(members) })
	promoted := c.Switch(t, tag)
	eventually(p.ctx, t, "they listen at the new master", func() bool { return at(promoted) >= len(members) && at(old) == 0 })
	p.lives(members)
}
