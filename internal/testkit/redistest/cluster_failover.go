package redistest

import (
	"context"
	"testing"
)

// Failover makes a replica of the key's shard its master, without asking the others (CLUSTER
// FAILOVER TAKEOVER, which needs no majority and takes milliseconds), and returns when it says it
// is. What the old master had not replicated is lost. The new master does not know the scripts that
// the old one knew.
func (c *Cluster) Failover(tb testing.TB, key string) (promoted *Server) {
	tb.Helper()
	promoted = c.replica(tb, key)
	promoted.Command(tb, "CLUSTER", "FAILOVER", "TAKEOVER")
	if !eventually(patience, func() bool { return role(promoted.Addr()) == "master" }) {
		tb.Fatal("takeover: the replica does not become master")
	}
	return promoted
}

// Switch makes a replica of the key's shard its master in agreement with the old one (CLUSTER
// FAILOVER), which loses nothing, and returns when all nodes know. The old master is its replica
// then.
func (c *Cluster) Switch(tb testing.TB, key string) (promoted *Server) {
	tb.Helper()
	old := c.Master(tb, key)
	promoted = c.replica(tb, key)
	var err error
	if !eventually(patience, func() bool { // a master that is slow for a moment is taken for dead
		_, err = promoted.Try("CLUSTER", "FAILOVER")
		return err == nil
	}) {
		tb.Fatalf("switch: %v", err)
	}
	c.AwaitPromotion(tb, key, old)
	return promoted
}

// ReplaceSilent has replicas take the place of a master by themselves, from now on, when it says nothing for a second.
// Without it they do not: on a busy machine a master is silent for as long now and then. What it had not replicated
// would be lost, and what it did before it knew, with nobody having asked for that.
func (c *Cluster) ReplaceSilent() {
	for _, s := range c.Nodes {
		_, _ = s.Try("CONFIG", "SET", "cluster-replica-no-failover", "no") // one that is dead is none of them
	}
}

// KillMaster kills the master of the key's shard and returns when the others have put a replica in
// its place, 2-3 s later. What the master had not replicated is lost.
func (c *Cluster) KillMaster(tb testing.TB, key string) (killed, promoted *Server) {
	tb.Helper()
	c.ReplaceSilent()
	killed = c.Master(tb, key)
	killed.Kill()
	return killed, c.AwaitPromotion(tb, key, killed)
}

// AwaitPromotion waits until all nodes that answer agree on a master of the key's shard other than
// old, it says that it is one, and they call the cluster healthy. It is for after old was killed or
// paused, see ReplaceSilent.
func (c *Cluster) AwaitPromotion(tb testing.TB, key string, old *Server) (promoted *Server) {
	tb.Helper()
	slot := c.slot(tb, key)
	if !eventually(2*patience, func() bool {
		promoted = nil
		for _, s := range c.Nodes {
			if s == old && role(s.Addr()) != "slave" {
				continue // dead, paused, or not yet aware of its successor, which its links tell it
			}
			shards, err := c.shards(s)
			if err != nil {
				continue
			}
			info, _ := text(call(s.Addr(), "CLUSTER", "INFO"))
			master := shards.master(slot)
			if master == nil || master == old || promoted != nil && master != promoted ||
				InfoField(info, "cluster_state") != "ok" {
				return false
			}
			promoted = master
		}
		return promoted != nil && role(promoted.Addr()) == "master"
	}) {
		tb.Fatalf("the nodes do not agree on a new master of slot %d", slot)
	}
	return promoted
}

// replica returns a replica of the key's shard.
func (c *Cluster) replica(tb testing.TB, key string) *Server {
	tb.Helper()
	var replicas []*Server
	if !eventually(patience, func() bool { // one that did not answer another node for a moment is not listed
		_, replicas = c.shard(tb, key)
		return len(replicas) > 0
	}) {
		tb.Fatalf("the shard of %q has no replica", key)
	}
	return replicas[0]
}

// AwaitReplicas waits until the replicas of the key's shard have everything its master has.
func (c *Cluster) AwaitReplicas(ctx context.Context, tb testing.TB, key string) {
	tb.Helper()
	master, replicas := c.shard(tb, key)
	awaitReplicas(ctx, tb, master, replicas)
}
