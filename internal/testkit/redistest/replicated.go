package redistest

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Replicated is a primary with replicas and nobody who watches them: what a failover does and when
// is the test's to say.
type Replicated struct {
	// Nodes are the servers: at first the primary, then the replicas. A promotion changes the
	// roles, not the order.
	Nodes   []*Server
	primary atomic.Pointer[Server]
}

// StartReplicated starts a primary with n replicas and waits until they follow. All are killed when
// the test ends.
func StartReplicated(tb testing.TB, n int, opts ...Option) *Replicated {
	tb.Helper()
	c := configure(tb, opts)
	r := &Replicated{Nodes: []*Server{startServer(tb, c, replication...)}}
	r.primary.Store(r.Nodes[0])
	follow := append([]string{"--replicaof", "127.0.0.1", strconv.Itoa(r.Nodes[0].port)}, replication...)
	for range n {
		r.Nodes = append(r.Nodes, startServer(tb, c, follow...))
	}
	for _, s := range r.Nodes[1:] {
		awaitLink(tb, s)
	}
	return r
}

// awaitLink waits until a replica follows its primary.
func awaitLink(tb testing.TB, replica *Server) {
	tb.Helper()
	if !eventually(patience, func() bool {
		info, _ := text(call(replica.Addr(), "INFO", "replication"))
		return InfoField(info, "master_link_status") == "up"
	}) {
		tb.Fatalf("the replica does not follow:\n%s", replica.proc.output())
	}
}

// Primary is the server that was promoted last, at first Nodes[0].
func (r *Replicated) Primary() *Server { return r.primary.Load() }

// Replicas are all nodes but the primary, in the order of Nodes.
func (r *Replicated) Replicas() []*Server {
	var replicas []*Server
	for _, s := range r.Nodes {
		if s != r.Primary() {
			replicas = append(replicas, s)
		}
	}
	return replicas
}

// AwaitReplicas waits until every replica has everything that the primary has. A detached or dead
// one never has.
func (r *Replicated) AwaitReplicas(ctx context.Context, tb testing.TB) {
	tb.Helper()
	awaitReplicas(ctx, tb, r.Primary(), r.Replicas())
}

// Detach cuts a replica's link to its primary, so that it gets no more writes. It stays a read-only
// replica with the data that it has. What the primary is sent from now on is lost if this replica
// is promoted: Detach, write, [Replicated.Promote] is a failover that loses writes. (Pausing the
// replica would not do: it reads on where it stopped.)
func (r *Replicated) Detach(tb testing.TB, replica *Server) {
	tb.Helper()
	replica.Command(tb, "REPLICAOF", "127.0.0.1", "1") // nobody listens there, and nobody may
	port := ",port=" + strconv.Itoa(replica.port) + ","
	if !eventually(patience, func() bool {
		info, err := text(call(r.Primary().Addr(), "INFO", "replication"))
		return err == nil && !strings.Contains(info, port)
	}) {
		tb.Fatal("detach: the primary still feeds the replica")
	}
}

// Promote makes a replica the primary at once (REPLICAOF NO ONE): clients of [Replicated.Client]
// connect to it from now on. Every other node that answers becomes its replica and forgets what the
// new primary does not have; a client connected to the old one is told READONLY. The new primary
// does not know the scripts that the old one knew.
func (r *Replicated) Promote(tb testing.TB, replica *Server) {
	tb.Helper()
	replica.Command(tb, "REPLICAOF", "NO", "ONE")
	if role(replica.Addr()) != "master" {
		tb.Fatal("promote: the replica does not become primary")
	}
	r.primary.Store(replica)
	for _, s := range r.Replicas() {
		_, _ = call(s.Addr(), "REPLICAOF", "127.0.0.1", strconv.Itoa(replica.port)) // it may be dead or paused
	}
}

// Failover promotes the first replica that answers and returns it. Only what it had by then
// survives; see [Replicated.AwaitReplicas] and [Replicated.Detach].
func (r *Replicated) Failover(tb testing.TB) (promoted *Server) {
	tb.Helper()
	for _, s := range r.Replicas() {
		if role(s.Addr()) == "slave" {
			r.Promote(tb, s)
			return s
		}
	}
	tb.Fatal("failover: no replica answers")
	return nil
}

// Client returns a client that connects to whichever server is the primary when it dials, as one
// does that knows the primary by a name or an address that moves. It is closed when the test ends.
// Connections to a former primary are given up when they break, or when it says that it is
// read-only by now. change may alter the options before use.
func (r *Replicated) Client(tb testing.TB, change ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	return NewClient(tb, r.Primary().Addr(), append([]func(*redis.Options){func(o *redis.Options) {
		dialer := net.Dialer{Timeout: 5 * time.Second}
		o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, r.Primary().Addr())
		}
	}}, change...)...)
}

// Strand pauses the replicas of a primary and cuts their links, so that they cannot get what it is
// sent from now on, not even when they go on: they would connect to it again, so it has to be dead
// or paused by then. That loses writes where somebody else than the test promotes replicas.
func (s *Server) Strand(tb testing.TB, replicas []*Server) {
	tb.Helper()
	for _, r := range replicas {
		r.Pause()
	}
	if !eventually(patience, func() bool {
		s.Command(tb, "CLIENT", "KILL", "TYPE", "replica") // again: a replica may have connected anew before it stopped
		return s.Field(tb, "replication", "connected_slaves") == "0"
	}) {
		tb.Fatal("strand: the primary keeps its replicas")
	}
}

// What clusters and Sentinels have in common.

func noMaintNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// addrs are the addresses of servers.
func addrs(servers []*Server) (list []string) {
	for _, s := range servers {
		list = append(list, s.Addr())
	}
	return list
}

// role is "master", "slave" or, if the server does not answer, empty.
func role(addr string) string {
	info, _ := text(call(addr, "INFO", "replication"))
	return InfoField(info, "role")
}

// awaitReplicas waits until the replicas have all that their primary had written when it was
// called. It asks the replicas themselves: what the primary knows of them is up to a second old.
// Sentinel makes a replica of a demoted primary when that has been up for 8 s.
func awaitReplicas(ctx context.Context, tb testing.TB, primary *Server, replicas []*Server) {
	tb.Helper()
	info, err := text(call(primary.Addr(), "INFO", "replication"))
	if err != nil {
		tb.Fatalf("replicas: %v", err)
	}
	want := InfoField(info, "master_repl_offset")
	for _, s := range replicas {
		if !eventually(3*patience, func() bool {
			info, _ = text(call(s.Addr(), "INFO", "replication"))
			follows := InfoField(info, "master_link_status") == "up" &&
				InfoField(info, "master_port") == strconv.Itoa(primary.port)
			return follows && atLeast(InfoField(info, "slave_repl_offset"), want) || ctx.Err() != nil
		}) || ctx.Err() != nil {
			tb.Fatalf("replica %s lags behind offset %s of %s:\n%s", s.Addr(), want, primary.Addr(), info)
		}
	}
}

// atLeast compares decimal numbers without sign.
func atLeast(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a >= b }
