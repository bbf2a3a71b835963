//go:build linux

package chaos

import (
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// mode is how clients connect.
type mode string

const (
	single   mode = "single"
	sentinel mode = "sentinel"
	cluster  mode = "cluster"
	quorum   mode = "quorum"

	masterName = redistest.SentinelMaster
)

// target is what a run is done to.
type target struct {
	name  string
	mode  mode
	nodes []*redistest.Server // that hold data
	addrs []string            // for clients
	clock bool                // the nodes' clocks can be moved
	begun time.Time           // of masters of a quorum
	// failover replaces a primary without losing a write; nil where there is no other.
	failover func(tb testing.TB, rng *rand.Rand)
}

// startServer makes a target of one server.
func startServer(tb testing.TB, p redistest.Program) *target {
	opts := []redistest.Option{redistest.Exec(p.Path), redistest.Debug()}
	t := &target{name: p.Name, mode: single, clock: haveCompiler()}
	if t.clock {
		opts = append(opts, redistest.Clock())
	}
	s := redistest.Start(tb, opts...)
	t.nodes, t.addrs = []*redistest.Server{s}, []string{s.Addr()}
	return t
}

// haveCompiler reports whether servers can have clocks of their own. Without a compiler the other
// faults are still worth it.
func haveCompiler() bool {
	_, err := exec.LookPath("cc")
	return err == nil
}

// startCluster makes a target of a cluster of three primaries with a replica each.
func startCluster(tb testing.TB, p redistest.Program) *target {
	c := redistest.StartCluster(tb, 3, 1, redistest.Exec(p.Path), redistest.Debug())
	t := &target{name: "cluster-" + p.Name, mode: cluster, nodes: c.Nodes}
	for _, n := range c.Nodes {
		t.addrs = append(t.addrs, n.Addr())
	}
	t.failover = func(tb testing.TB, rng *rand.Rand) { c.Switch(tb, strconv.Itoa(rng.IntN(100))) }
	return t
}

// startSentinel makes a target of a primary with a replica under Sentinels. The program knows
// CLIENT PAUSE WRITE, so it is Redis 7 or later, or Valkey.
func startSentinel(tb testing.TB, p redistest.Program) *target {
	s := redistest.StartSentinel(tb, redistest.Exec(p.Path), redistest.Debug())
	t := &target{name: "sentinel-" + p.Name, mode: sentinel, nodes: s.Nodes, addrs: s.Addrs()}
	t.failover = func(tb testing.TB, _ *rand.Rand) {
		// The old primary must take no write from before the replica has all until it is a replica
		// itself. The Sentinels would tell it so in the end, but their own connections are paused
		// too, by the PUBLISH that they send.
		old := s.Primary(tb)
		old.Command(tb, "CLIENT", "PAUSE", "60000", "WRITE")
		s.AwaitReplica(tb.Context(), tb)
		host, port, err := net.SplitHostPort(s.Failover(tb).Addr())
		require.NoError(tb, err)
		old.Command(tb, "REPLICAOF", host, port)
		old.Command(tb, "CLIENT", "UNPAUSE")
	}
	return t
}

// proxies puts a fault proxy before each node, for one client process.
func (t *target) proxies(tb testing.TB) (list []*faultproxy.Proxy, byAddr map[string]string) {
	byAddr = make(map[string]string)
	for _, n := range t.nodes {
		p := faultproxy.New(tb, n.Addr())
		list = append(list, p)
		byAddr[n.Addr()] = p.Addr()
	}
	return list, byAddr
}

// keys are the keys of one node of the kind that locks are, those of queues, and those without a
// time to live.
func keys(tb testing.TB, n *redistest.Server) (locks, queues, eternal []string) {
	tb.Helper()
	list, _ := n.Command(tb, "KEYS", "*").([]any)
	for _, k := range list {
		key := k.(string)
		ttl, err := n.Try("PTTL", key)
		switch {
		case err != nil: // this one is a replica; its primary is asked too
		case ttl == int64(-2): // it ended since
		case ttl == int64(-1):
			eternal = append(eternal, key)
		case begins(key, ofQueues):
			queues = append(queues, key)
		case !begins(key, remembered) && !counts(key):
			locks = append(locks, key)
		}
	}
	return locks, queues, eternal
}

var (
	ofQueues = []string{
		"redisson_lock_queue:", "redisson_lock_timeout:", "holdfast_rwlock_writers:", "holdfast_semaphore_queue:",
		"holdfast_semaphore_wants:",
	}
	// last tokens, how far waiters are, calls of latches that may be repeated, what the last leader said of
	// itself, who leads no more when it has lost the lock, and calls that set the number of permits
	remembered = []string{
		"redisson_lock_token:", "redisson_lock__channel:", "holdfast_latch:", "holdfast_election:",
		"holdfast_semaphore_places:",
	}
)

func begins(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}
