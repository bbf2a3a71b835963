package redistest

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Move is a slot on its way to another master. Until [Move.Finish] the source owns it and answers ASK for keys it lacks. For
// several keys, partly moved, the target answers TRYAGAIN, since 7.0 also the source.
type Move struct {
	Slot     int
	From, To *Server
	cluster  *Cluster
}

// MoveSlot moves the slot of a key, with all keys in it, to another master, as resharding does.
func (c *Cluster) MoveSlot(tb testing.TB, key string, to *Server) {
	m := c.BeginMove(tb, key, to)
	m.Keys(tb)
	m.Finish(tb)
}

// BeginMove declares the slot of a key to be on its way to another master. No key moves yet.
func (c *Cluster) BeginMove(tb testing.TB, key string, to *Server) *Move {
	tb.Helper()
	m := &Move{From: c.Master(tb, key), To: to, cluster: c}
	slot, _ := m.From.Command(tb, "CLUSTER", "KEYSLOT", key).(int64)
	m.Slot = int(slot)
	if m.From == to {
		tb.Fatalf("slot %d is on %s already", m.Slot, to.Addr())
	}
	m.set(tb, to, "IMPORTING", m.From)
	m.set(tb, m.From, "MIGRATING", to)
	return m
}

// Key moves one key, if the source has it.
func (m *Move) Key(tb testing.TB, name string) {
	m.From.Command(tb, "MIGRATE", "127.0.0.1", strconv.Itoa(m.To.port), name, "0", "5000")
}

// Keys moves all keys that are in the slot now.
func (m *Move) Keys(tb testing.TB) {
	for {
		keys, _ := m.From.Command(tb, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(m.Slot), "100").([]any)
		if len(keys) == 0 {
			return
		}
		for _, key := range keys {
			m.Key(tb, key.(string))
		}
	}
}

// Finish gives the slot to the target, and returns when all nodes that answer know. The source refuses while it has keys.
func (m *Move) Finish(tb testing.TB) {
	masters := []*Server{m.To, m.From} // the target first: it must own the slot before the source lets go
	for _, s := range m.cluster.Nodes {
		if !slices.Contains(masters, s) && role(s.Addr()) == "master" {
			masters = append(masters, s)
		}
	}
	m.awaitEpochs(tb)
	for _, s := range masters {
		m.set(tb, s, "NODE", m.To)
	}
	require.True(tb, Within(patience, func() bool {
		return !slices.ContainsFunc(m.cluster.Nodes, func(s *Server) bool {
			shards, err := m.cluster.shards(s)
			return err == nil && shards.master(int64(m.Slot)) != m.To
		})
	}), "not all nodes know that slot %d is on %s", m.Slot, m.To.Addr())
}

// awaitEpochs waits until the target knows every node's epoch: it takes the next for the slot. Were the source's greater, by a
// move just before, its word would be believed for good, and the target would drop slot and keys. (Seen with 6.0.)
func (m *Move) awaitEpochs(tb testing.TB) {
	epoch := func(s *Server, field string) int {
		info, _ := text(call(s.Addr(), "CLUSTER", "INFO")) // it may be dead, and then has no say
		n, _ := strconv.Atoi(InfoField(info, field))
		return n
	}
	require.True(tb, Within(patience, func() bool {
		known := epoch(m.To, "cluster_current_epoch")
		return !slices.ContainsFunc(m.cluster.Nodes,
			func(s *Server) bool { return epoch(s, "cluster_my_epoch") > known })
	}), "%s does not know the epochs of the others", m.To.Addr())
}

// set tells a node the state of the slot.
func (m *Move) set(tb testing.TB, s *Server, state string, other *Server) {
	id, _ := other.Command(tb, "CLUSTER", "MYID").(string)
	s.Command(tb, "CLUSTER", "SETSLOT", strconv.Itoa(m.Slot), state, id)
}

// slotRange is a row of CLUSTER SLOTS.
type slotRange struct {
	from, to int64
	nodes    []*Server // the master, then the replicas that it knows to be well
}

// slotMap is one node's view of who serves what.
type slotMap []slotRange

// master is who serves the slot, nil if nobody.
func (m slotMap) master(slot int64) *Server {
	if nodes := m.nodes(slot); len(nodes) > 0 {
		return nodes[0]
	}
	return nil
}

func (m slotMap) nodes(slot int64) []*Server {
	if i := slices.IndexFunc(m, func(r slotRange) bool { return slot >= r.from && slot <= r.to }); i >= 0 {
		return m[i].nodes
	}
	return nil
}

// shards asks a node for its view.
func (c *Cluster) shards(s *Server) (slotMap, error) {
	reply, err := call(s.Addr(), "CLUSTER", "SLOTS")
	if err != nil {
		return nil, err
	}
	var m slotMap
	rows, _ := reply.([]any)
	for _, row := range rows {
		row := row.([]any) // from, to, master, replicas...: [ip, port, id]
		r := slotRange{from: row[0].(int64), to: row[1].(int64)}
		for _, node := range row[2:] {
			for _, s := range c.Nodes {
				if int64(s.port) == node.([]any)[1].(int64) {
					r.nodes = append(r.nodes, s)
				}
			}
		}
		m = append(m, r)
	}
	return m, nil
}

// slot is the number of the key's slot.
func (c *Cluster) slot(tb testing.TB, key string) int64 {
	tb.Helper()
	for _, s := range c.Nodes {
		if n, err := call(s.Addr(), "CLUSTER", "KEYSLOT", key); err == nil {
			return n.(int64)
		}
	}
	tb.Fatal("no node of the cluster answers")
	return 0
}

// Replicas are the nodes that stand by for the master of the key.
func (c *Cluster) Replicas(tb testing.TB, key string) []*Server {
	_, replicas := c.shard(tb, key)
	return replicas
}

// shard returns the master and the replicas that serve the key.
func (c *Cluster) shard(tb testing.TB, key string) (master *Server, replicas []*Server) {
	tb.Helper()
	slot := c.slot(tb, key)
	for _, s := range c.Nodes {
		m, err := c.shards(s)
		if nodes := m.nodes(slot); err == nil && len(nodes) > 0 {
			return nodes[0], nodes[1:]
		}
	}
	tb.Fatalf("no node knows a master for %q", key)
	return nil, nil
}

// Failover makes a replica of the key's shard its master by CLUSTER FAILOVER TAKEOVER, in milliseconds and without a majority,
// and returns when it is. What was not replicated is lost. It does not know the scripts that the old one knew.
func (c *Cluster) Failover(tb testing.TB, key string) (promoted *Server) {
	promoted = c.replica(tb, key)
	promoted.Command(tb, "CLUSTER", "FAILOVER", "TAKEOVER")
	require.True(tb, Within(patience, func() bool { return role(promoted.Addr()) == "master" }), "takeover: the replica does not become master")
	return promoted
}

// Switch swaps the master of the key's shard with a replica (CLUSTER FAILOVER), without loss, and returns when all nodes know.
func (c *Cluster) Switch(tb testing.TB, key string) (promoted *Server) {
	tb.Helper()
	old := c.Master(tb, key)
	promoted = c.replica(tb, key)
	var err error
	if !Within(patience, func() bool { // a master that is slow for a moment is taken for dead
		_, err = promoted.Try("CLUSTER", "FAILOVER")
		return err == nil
	}) {
		tb.Fatalf("switch: %v", err)
	}
	c.AwaitPromotion(tb, key, old)
	return promoted
}

// ReplaceSilent has replicas replace a master, from now on, that is silent for a second. Without it none does: on a busy
// machine a master is silent for as long now and then, and what it had not replicated would be lost unasked.
func (c *Cluster) ReplaceSilent() {
	for _, s := range c.Nodes {
		_, _ = s.Try("CONFIG", "SET", "cluster-replica-no-failover", "no") // one that is dead is none of them
	}
}

// KillMaster kills the master of the key's shard, and returns when it is replaced, in 2-3 s. What it did not replicate is lost.
func (c *Cluster) KillMaster(tb testing.TB, key string) (killed, promoted *Server) {
	c.ReplaceSilent()
	killed = c.Master(tb, key)
	killed.Kill()
	return killed, c.AwaitPromotion(tb, key, killed)
}

// AwaitPromotion waits until all nodes that answer agree on a master of the key's shard other than old, it says that it is one,
// and they call the cluster healthy. It is for after old was killed or paused, see ReplaceSilent.
func (c *Cluster) AwaitPromotion(tb testing.TB, key string, old *Server) (promoted *Server) {
	slot := c.slot(tb, key)
	require.True(tb, Within(2*patience, func() bool {
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
	}), "the nodes do not agree on a new master of slot %d", slot)
	return promoted
}

// replica returns a replica of the key's shard.
func (c *Cluster) replica(tb testing.TB, key string) *Server {
	var replicas []*Server
	require.True(tb, Within(patience, func() bool { // one that did not answer another node for a moment is not listed
		_, replicas = c.shard(tb, key)
		return len(replicas) > 0
	}), "the shard of %q has no replica", key)
	return replicas[0]
}

// AwaitReplicas waits until the replicas of the key's shard have everything its master has.
func (c *Cluster) AwaitReplicas(ctx context.Context, tb testing.TB, key string) {
	master, replicas := c.shard(tb, key)
	awaitReplicas(ctx, tb, master, replicas)
}
