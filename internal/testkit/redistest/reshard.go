package redistest

import (
	"slices"
	"strconv"
	"testing"
)

// Move is a slot on its way from one master to another. Until [Move.Finish] the source owns it and
// answers ASK for keys that it does not have. A command for several keys of which some have moved
// is answered with TRYAGAIN, by the target and since 7.0 by the source, too.
type Move struct {
	Slot     int
	From, To *Server
	cluster  *Cluster
}

// MoveSlot moves the slot of a key, with all keys in it, to another master, as resharding does.
func (c *Cluster) MoveSlot(tb testing.TB, key string, to *Server) {
	tb.Helper()
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
	tb.Helper()
	m.From.Command(tb, "MIGRATE", "127.0.0.1", strconv.Itoa(m.To.port), name, "0", "5000")
}

// Keys moves all keys that are in the slot now.
func (m *Move) Keys(tb testing.TB) {
	tb.Helper()
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

// Finish gives the slot to the target and returns when all nodes that answer know. Keys still at
// the source make the source refuse.
func (m *Move) Finish(tb testing.TB) {
	tb.Helper()
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
	if !eventually(patience, func() bool {
		return !slices.ContainsFunc(m.cluster.Nodes, func(s *Server) bool {
			shards, err := m.cluster.shards(s)
			return err == nil && shards.master(int64(m.Slot)) != m.To
		})
	}) {
		tb.Fatalf("not all nodes know that slot %d is on %s", m.Slot, m.To.Addr())
	}
}

// awaitEpochs waits until the target knows the epoch of every node, since it takes the next greater
// one for the slot. If the source had a greater one from a move just before, what it said of the
// slot then would be believed for good, the target would give the slot up, and delete its keys.
// (Seen with 6.0, where a node does not tell the others at once.)
func (m *Move) awaitEpochs(tb testing.TB) {
	tb.Helper()
	epoch := func(s *Server, field string) int {
		info, _ := text(call(s.Addr(), "CLUSTER", "INFO")) // it may be dead, and then has no say
		n, _ := strconv.Atoi(InfoField(info, field))
		return n
	}
	if !eventually(patience, func() bool {
		known := epoch(m.To, "cluster_current_epoch")
		return !slices.ContainsFunc(m.cluster.Nodes,
			func(s *Server) bool { return epoch(s, "cluster_my_epoch") > known })
	}) {
		tb.Fatalf("%s does not know the epochs of the others", m.To.Addr())
	}
}

// set tells a node the state of the slot.
func (m *Move) set(tb testing.TB, s *Server, state string, other *Server) {
	tb.Helper()
	id, _ := other.Command(tb, "CLUSTER", "MYID").(string)
	s.Command(tb, "CLUSTER", "SETSLOT", strconv.Itoa(m.Slot), state, id)
}
