package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"
)

// SentinelMaster is the name under which the Sentinels watch the primary.
const SentinelMaster = "holdfast"

// Sentinel is a primary with one replica, watched by three Sentinels of which two must agree.
type Sentinel struct {
	Nodes     []*Server // the data servers: at first the primary, then the replica
	Sentinels []*Server // speak the Sentinel commands only
}

// StartSentinel starts a primary, a replica and three Sentinels, and waits until each Sentinel knows all the others. That takes
// 0.2-0.3 s, under Redis 6.0 more than 2 s (see hurry). A dead primary is replaced after ReplaceSilent. All are killed when the
// test ends. Of the options Exec holds for the Sentinels too, the others for the data servers only.
func StartSentinel(tb testing.TB, opts ...Option) *Sentinel {
	tb.Helper()
	data := StartReplicated(tb, 1, opts...)
	primary := data.Nodes[0]
	s := &Sentinel{Nodes: data.Nodes}
	for range 3 {
		s.Sentinels = append(s.Sentinels, startSentinel(tb, primary))
	}
	hurry(s.Sentinels, "100", "100")
	defer hurry(s.Sentinels, "10000", "2000")
	for _, sentinel := range s.Sentinels {
		var info string
		if !Within(patience, func() bool {
			info, _ = text(call(sentinel.Addr(), "INFO", "sentinel"))
			return strings.Contains(info, "status=ok") && strings.Contains(info, "slaves=1,sentinels=3")
		}) {
			tb.Fatalf("sentinel %s is not ready:\n%s\n%s", sentinel.Addr(), info, sentinel.proc.output())
		}
	}
	return s
}

// hurry sets how often (ms) Sentinels ask and greet, so they find each other sooner. Put the usual periods back: greeting every
// 100 ms, a Sentinel turns back a promoted primary that it has not heard of, and aborts failovers. Redis 6.0 lacks the command.
func hurry(sentinels []*Server, info, publish string) {
	for _, s := range sentinels {
		_, _ = call(s.Addr(), "SENTINEL", "DEBUG", "info-period", info, "publish-period", publish)
	}
}

// startSentinel starts one Sentinel. It needs a file of configuration that it can rewrite.
func startSentinel(tb testing.TB, primary *Server) *Server {
	s := &Server{tb: tb, bin: primary.bin, dir: tb.TempDir(), watches: primary.port}
	require.NoError(tb, s.start())
	tb.Cleanup(func() { s.proc.kill() })
	return s
}

// sentinelConf writes the file for a start on this port.
func (s *Server) sentinelConf() (path string, err error) {
	path = filepath.Join(s.dir, fmt.Sprintf("sentinel-%d.conf", s.port))
	conf := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %q\nsentinel monitor %s 127.0.0.1 %d 2\n", s.port, s.dir,
		SentinelMaster, s.watches) +
		fmt.Sprintf("sentinel down-after-milliseconds %[1]s 600000\nsentinel failover-timeout %[1]s 2000\n",
			SentinelMaster)
	return path, os.WriteFile(path, []byte(conf), 0o600)
}

// Addrs are the addresses of the Sentinels.
func (s *Sentinel) Addrs() []string { return addrs(s.Sentinels) }

// Client asks the Sentinels for the primary; it is closed when the test ends. change may alter the options before use.
func (s *Sentinel) Client(tb testing.TB, change ...func(*redis.FailoverOptions)) *redis.Client {
	o := &redis.FailoverOptions{
		MasterName: SentinelMaster, SentinelAddrs: s.Addrs(), DialerRetries: 1, DisableIdentity: true,
	}
	for _, f := range change {
		f(o)
	}
	rdb := redis.NewFailoverClient(o)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Primary returns the primary in the eyes of the first Sentinel that answers.
func (s *Sentinel) Primary(tb testing.TB) *Server {
	tb.Helper()
	for _, sentinel := range s.Sentinels {
		if n := s.node(sentinel.primaryAddr()); n != nil {
			return n
		}
	}
	tb.Fatal("no sentinel knows a primary")
	return nil
}

func (s *Sentinel) node(addr string) *Server {
	if i := slices.IndexFunc(s.Nodes, func(n *Server) bool { return n.Addr() == addr }); i >= 0 {
		return s.Nodes[i]
	}
	return nil
}

// primaryAddr is what this Sentinel holds for the address of the primary.
func (s *Server) primaryAddr() string {
	reply, _ := call(s.Addr(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelMaster)
	if pair, ok := reply.([]any); ok && len(pair) == 2 {
		return net.JoinHostPort(pair[0].(string), pair[1].(string))
	}
	return ""
}

// Failover makes the replica the primary and returns when all Sentinels agree on it, about 1 s later. The old primary becomes
// its replica within 10 s more. The new primary does not know the scripts that the old one knew.
func (s *Sentinel) Failover(tb testing.TB) (promoted *Server) {
	tb.Helper()
	old := s.Primary(tb)
	var err error
	if !Within(patience, func() bool { // refused while a replica is not yet known to be good
		_, err = call(s.Sentinels[0].Addr(), "SENTINEL", "FAILOVER", SentinelMaster)
		return err == nil
	}) {
		tb.Fatalf("sentinel failover: %v", err)
	}
	return s.AwaitPromotion(tb, old)
}

// ReplaceSilent has the Sentinels replace a primary, from now on, that is silent for 500 ms, which takes 1.5 s in all. Without
// it they do not: on a busy machine it is silent for as long now and then, and unreplicated writes would be lost unasked.
func (s *Sentinel) ReplaceSilent() {
	for _, sentinel := range s.Sentinels {
		_, _ = sentinel.Try("SENTINEL", "SET", SentinelMaster, "down-after-milliseconds", "500") // one that is dead decides nothing
	}
}

// AwaitPromotion waits until all Sentinels and a primary other than old, killed or paused, agree on it. See ReplaceSilent.
// It waits for longer than 30 s: for as long a Sentinel that stood still for 2 s, as on a busy disk, decides nothing (TILT).
func (s *Sentinel) AwaitPromotion(tb testing.TB, old *Server) (promoted *Server) {
	require.True(tb, Within(6*patience, func() bool {
		promoted = nil
		for _, sentinel := range s.Sentinels {
			n := s.node(sentinel.primaryAddr())
			if n == nil || n == old || promoted != nil && n != promoted || role(n.Addr()) != "master" {
				return false
			}
			promoted = n
		}
		return true
	}), "the sentinels do not agree on a new primary; the first one's log:\n%s", s.Sentinels[0].proc.output())
	return promoted
}

// AwaitReplica waits until the replica has everything the primary has.
func (s *Sentinel) AwaitReplica(ctx context.Context, tb testing.TB) {
	primary := s.Primary(tb)
	awaitReplicas(ctx, tb, primary, others(s.Nodes, primary))
}

// Replicated is a primary with replicas and nobody who watches them: what a failover does and when is the test's to say.
type Replicated struct {
	// Nodes are the servers: at first the primary, then the replicas. A promotion changes the roles, not the order.
	Nodes   []*Server
	primary atomic.Pointer[Server]
}

// StartReplicated starts a primary with n replicas and waits until they follow. All are killed when the test ends.
func StartReplicated(tb testing.TB, n int, opts ...Option) *Replicated {
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
	require.True(tb, Within(patience, func() bool {
		info, _ := text(call(replica.Addr(), "INFO", "replication"))
		return InfoField(info, "master_link_status") == "up"
	}), "the replica does not follow:\n%s", replica.proc.output())
}

// Primary is the server that was promoted last, at first Nodes[0].
func (r *Replicated) Primary() *Server { return r.primary.Load() }

// Replicas are all nodes but the primary, in the order of Nodes.
func (r *Replicated) Replicas() []*Server { return others(r.Nodes, r.Primary()) }

// AwaitReplicas waits until every replica has everything that the primary has. A detached or dead one never has.
func (r *Replicated) AwaitReplicas(ctx context.Context, tb testing.TB) {
	awaitReplicas(ctx, tb, r.Primary(), r.Replicas())
}

// Detach cuts a replica's link to its primary. It stays a read-only replica with the data that it has, so that Detach, write,
// [Replicated.Promote] is a failover that loses writes. (A paused replica would read on where it stopped.)
func (r *Replicated) Detach(tb testing.TB, replica *Server) {
	replica.Command(tb, "REPLICAOF", "127.0.0.1", "1") // nobody listens there, and nobody may
	port := ",port=" + strconv.Itoa(replica.port) + ","
	require.True(tb, Within(patience, func() bool {
		info, err := text(call(r.Primary().Addr(), "INFO", "replication"))
		return err == nil && !strings.Contains(info, port)
	}), "detach: the primary still feeds the replica")
}

// Promote makes a replica the primary at once (REPLICAOF NO ONE), also for [Replicated.Client]. Other nodes that answer follow
// it and forget what it lacks; clients of the old one are told READONLY. It does not know the old one's scripts.
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

// Failover promotes the first replica that answers. Only what it has survives; see AwaitReplicas and [Replicated.Detach].
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

// Client connects to the server that is primary when it dials, as by a name that moves. It drops connections that break or that
// say they are read-only. It is closed at the test's end. change may alter the options before use.
func (r *Replicated) Client(tb testing.TB, change ...func(*redis.Options)) *redis.Client {
	return NewClient(tb, r.Primary().Addr(), append([]func(*redis.Options){func(o *redis.Options) {
		dialer := net.Dialer{Timeout: 5 * time.Second}
		o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, r.Primary().Addr())
		}
	}}, change...)...)
}

// Strand pauses a primary's replicas and cuts their links, so that they miss what it is sent from now on. It must be dead or
// paused when they go on, else they connect again. That loses writes where others than the test promote.
func (s *Server) Strand(tb testing.TB, replicas []*Server) {
	for _, r := range replicas {
		r.Pause()
	}
	require.True(tb, Within(patience, func() bool {
		s.Command(tb, "CLIENT", "KILL", "TYPE", "replica") // again: a replica may have connected anew before it stopped
		return s.Field(tb, "replication", "connected_slaves") == "0"
	}), "strand: the primary keeps its replicas")
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

// others are the servers but one.
func others(servers []*Server, but *Server) []*Server {
	return slices.DeleteFunc(slices.Clone(servers), func(s *Server) bool { return s == but })
}

// role is "master", "slave" or, if the server does not answer, empty.
func role(addr string) string {
	info, _ := text(call(addr, "INFO", "replication"))
	return InfoField(info, "role")
}

// awaitReplicas waits until the replicas have what their primary had written when called. It asks them: the primary's view is
// up to a second old. Sentinel makes a demoted primary a replica once that has been up for 8 s.
func awaitReplicas(ctx context.Context, tb testing.TB, primary *Server, replicas []*Server) {
	tb.Helper()
	info, err := text(call(primary.Addr(), "INFO", "replication"))
	require.NoError(tb, err, "replicas")
	want := InfoField(info, "master_repl_offset")
	for _, s := range replicas {
		if !Within(3*patience, func() bool {
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
