package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// replication makes replicas follow at once: by default a primary since 7.0 waits 5 s for more of them before it syncs.
var replication = []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}

// Cluster is a Redis Cluster of servers on this machine.
type Cluster struct {
	// Nodes are masters in the order of their slots, then each one's replicas. Failovers change roles, not the order.
	Nodes   []*Server
	masters int    // how many shards there are
	id      uint64 // of this cluster, among all that run or have run here
}

// StartCluster starts masters with so many replicas each, and waits until every node calls it healthy and every replica
// follows. That takes 2 s, for which a fresh master refuses to serve: tests of a package should share it. By a node
// timeout of 1 s a killed master is replaced within 2-3 s. The cluster is killed when the test ends.
func StartCluster(tb testing.TB, shards, replicas int, opts ...Option) *Cluster {
	tb.Helper()
	conf := configure(tb, opts)
	if conf.certs != nil {
		tb.Fatal("redistest: a cluster with TLS is not offered")
	}
	var c *Cluster
	var err error
	for range 3 { // another process may take a port between our look and the server's
		if c, err = startCluster(tb, conf, shards, replicas); err == nil {
			break
		}
	}
	require.NoError(tb, err)
	c.await(tb, replicas)
	return c
}

// startCluster starts nodes that nodes.conf introduces: commands are no faster, and CLUSTER MEET races SET-CONFIG-EPOCH.
func startCluster(tb testing.TB, conf config, shards, replicas int) (*Cluster, error) {
	c := &Cluster{masters: shards, id: rand.Uint64()}
	flags := append([]string{
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "1000",
		"--cluster-replica-validity-factor", "0", "--cluster-replica-no-failover", "yes", // see ReplaceSilent
	}, replication...)
	version := inspect(conf.bin).Version
	if !strings.HasPrefix(version, "6.") { // came with 7.0; without it only a spare replica would move
		flags = append(flags, "--cluster-allow-replica-migration", "no")
	}
	lines := make([]string, 0, shards*(1+replicas))
	taken := make(map[int]bool)
	for i := range shards * (1 + replicas) {
		port := busPort(taken)
		if port == 0 {
			return nil, fmt.Errorf("no free pair of ports for a cluster node")
		}
		role := fmt.Sprintf("master - 0 0 %d connected %d-%d", i+1, 16384*i/shards, 16384*(i+1)/shards-1)
		if i >= shards {
			role = fmt.Sprintf("slave %s 0 0 0 connected", c.nodeID((i-shards)/replicas))
		}
		lines = append(lines, fmt.Sprintf("%s 127.0.0.1:%d@%d%s %s", c.nodeID(i), port, port+10000,
			c.shardOf(version, i, replicas), role))
		node := conf.server(tb, flags...)
		node.port = port
		c.Nodes = append(c.Nodes, node)
	}
	for i, s := range c.Nodes {
		file := strings.Builder{}
		for j, line := range lines {
			if j == i {
				line = strings.Replace(line, " master ", " myself,master ", 1)
				line = strings.Replace(line, " slave ", " myself,slave ", 1)
			}
			file.WriteString(line + "\n")
		}
		fmt.Fprintf(&file, "vars currentEpoch %d lastVoteEpoch 0\n", shards)
		if err := os.WriteFile(filepath.Join(s.dir, "nodes.conf"), []byte(file.String()), 0o600); err != nil {
			return nil, err
		}
		if err := s.run(); err != nil {
			for _, started := range c.Nodes[:i] {
				started.proc.kill()
			}
			return nil, err
		}
	}
	for _, s := range c.Nodes {
		tb.Cleanup(func() { s.proc.kill() })
	}
	return c, nil
}

// nodeID is one that no node of another cluster has, of another run at the same time or of one just before: nodes that find a
// known id at an address that they remember take it for their own, and two clusters become one.
func (c *Cluster) nodeID(i int) string { return fmt.Sprintf("%016x%024x", c.id, i+1) }

// shardOf says in a line of nodes.conf to which shard a node belongs, which servers since 7.2 want to know. Valkey 9 ends at
// the first SPUBLISH if it does not know its own, and learns it only from replicas.
func (c *Cluster) shardOf(version string, node, replicas int) string {
	if strings.HasPrefix(version, "6.") || strings.HasPrefix(version, "7.0.") {
		return ""
	}
	master := node
	if node >= c.masters {
		master = (node - c.masters) / replicas
	}
	return ",,shard-id=" + c.nodeID(master)
}

// busPort finds a port p with p+10000, of the cluster bus, also free; 0: none. (--cluster-port came with 7.0.) The kernel mostly
// chooses above 55535, where p+10000 is no port, so p is drawn below its range.
func busPort(taken map[int]bool) int {
	for range 200 {
		p := 10000 + rand.IntN(12000)
		if taken[p] || !free(p) || !free(p+10000) {
			continue
		}
		taken[p] = true
		return p
	}
	return 0
}

func free(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// await waits until the cluster is whole.
func (c *Cluster) await(tb testing.TB, replicas int) {
	tb.Helper()
	deadline := time.Now().Add(2 * patience)
	for i, s := range c.Nodes {
		var last string
		if !Within(time.Until(deadline), func() bool {
			last, _ = text(call(s.Addr(), "CLUSTER", "INFO"))
			if InfoField(last, "cluster_state") != "ok" {
				return false
			}
			last, _ = text(call(s.Addr(), "INFO", "replication"))
			if i < c.masters {
				return InfoField(last, "connected_slaves") == strconv.Itoa(replicas)
			}
			return InfoField(last, "master_link_status") == "up"
		}) {
			tb.Fatalf("cluster node %s is not ready:\n%s\n%s", s.Addr(), last, s.proc.output())
		}
	}
}

// Addrs are the addresses of the nodes, in the order of Nodes.
func (c *Cluster) Addrs() []string { return addrs(c.Nodes) }

// Client returns a client of the cluster, closed when the test ends. It reloads the map of slots every 500 ms (go-redis' own 60
// s would leave it blind to a dead master for that long). change may alter the options before use.
func (c *Cluster) Client(tb testing.TB, change ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	o := &redis.ClusterOptions{
		Addrs: c.Addrs(), DialerRetries: 1, DisableIdentity: true,
		ClusterStateReloadInterval: 500 * time.Millisecond, MaintNotificationsConfig: noMaintNotifications(),
	}
	for _, f := range change {
		f(o)
	}
	rdb := redis.NewClusterClient(o)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Master returns the node that serves the key, in the eyes of the first node that answers.
func (c *Cluster) Master(tb testing.TB, key string) *Server {
	master, _ := c.shard(tb, key)
	return master
}

// Masters are the nodes that serve slots, in the order of Nodes.
func (c *Cluster) Masters(tb testing.TB) []*Server {
	tb.Helper()
	for _, s := range c.Nodes {
		if m, err := c.shards(s); err == nil {
			return slices.DeleteFunc(slices.Clone(c.Nodes), func(n *Server) bool {
				return !slices.ContainsFunc(m, func(r slotRange) bool { return r.nodes[0] == n })
			})
		}
	}
	tb.Fatal("no node of the cluster answers")
	return nil
}
