package redistest

import "testing"

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
	for _, r := range m {
		if slot >= r.from && slot <= r.to {
			return r.nodes
		}
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
	tb.Helper()
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
