package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// SentinelMaster is the name under which the Sentinels watch the primary.
const SentinelMaster = "holdfast"

// Sentinel is a primary with one replica, watched by three Sentinels of which two must agree.
type Sentinel struct {
	Nodes     []*Server // the data servers: at first the primary, then the replica
	Sentinels []*Server // speak the Sentinel commands only
}

// StartSentinel starts a primary, a replica and three Sentinels, and waits until each Sentinel
// knows all the others. That takes 0.2-0.3 s, under Redis 6.0 more than 2 s (see hurry). A dead
// primary is replaced after ReplaceSilent. All are killed when the test ends. Of the options Exec holds for the Sentinels too, the others for the data servers only.
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
		if !eventually(patience, func() bool {
			info, _ = text(call(sentinel.Addr(), "INFO", "sentinel"))
			return strings.Contains(info, "status=ok") && strings.Contains(info, "slaves=1,sentinels=3")
		}) {
			tb.Fatalf("sentinel %s is not ready:\n%s\n%s", sentinel.Addr(), info, sentinel.proc.output())
		}
	}
	return s
}

// hurry sets how often (ms) the Sentinels ask the servers and greet each other, which decides how
// soon they have found one another. The usual periods must be put back: with 100 ms greetings, a
// Sentinel turns a primary back that was promoted before it has heard of it, and failovers are
// aborted. Redis 6.0 does not have the command and takes its time.
func hurry(sentinels []*Server, info, publish string) {
	for _, s := range sentinels {
		_, _ = call(s.Addr(), "SENTINEL", "DEBUG", "info-period", info, "publish-period", publish)
	}
}

// startSentinel starts one Sentinel. It needs a file of configuration that it can rewrite.
func startSentinel(tb testing.TB, primary *Server) *Server {
	tb.Helper()
	s := &Server{tb: tb, bin: primary.bin, dir: tb.TempDir(), watches: primary.port}
	if err := s.start(); err != nil {
		tb.Fatal(err)
	}
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

// Client returns a client that asks the Sentinels for the primary, closed when the test ends.
// change may alter the options before use.
func (s *Sentinel) Client(tb testing.TB, change ...func(*redis.FailoverOptions)) *redis.Client {
	tb.Helper()
	o := &redis.FailoverOptions{
		MasterName:      SentinelMaster,
		SentinelAddrs:   s.Addrs(),
		DialerRetries:   1,
		DisableIdentity: true,
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
	for _, n := range s.Nodes {
		if n.Addr() == addr {
			return n
		}
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

// Failover makes the replica the primary and returns when all Sentinels agree on it, about 1 s
// later. The old primary becomes its replica within 10 s more. The new primary does not know the
// scripts that the old one knew.
func (s *Sentinel) Failover(tb testing.TB) (promoted *Server) {
	tb.Helper()
	old := s.Primary(tb)
	var err error
	if !eventually(patience, func() bool { // refused while a replica is not yet known to be good
		_, err = call(s.Sentinels[0].Addr(), "SENTINEL", "FAILOVER", SentinelMaster)
		return err == nil
	}) {
		tb.Fatalf("sentinel failover: %v", err)
	}
	return s.AwaitPromotion(tb, old)
}

// ReplaceSilent has the Sentinels replace a primary that says nothing for 500 ms, from now on, which takes about 1.5 s in
// all. Without it they do not: on a busy machine a primary is silent for as long now and then. What it had not replicated
// would be lost, with nobody having asked for that.
func (s *Sentinel) ReplaceSilent() {
	for _, sentinel := range s.Sentinels {
		_, _ = sentinel.Try("SENTINEL", "SET", SentinelMaster, "down-after-milliseconds", "500") // one that is dead decides nothing
	}
}

// AwaitPromotion waits until all Sentinels agree on a primary other than old, and it says that it
// is one. It is for after old was killed or paused, see ReplaceSilent.
func (s *Sentinel) AwaitPromotion(tb testing.TB, old *Server) (promoted *Server) {
	tb.Helper()
	if !eventually(2*patience, func() bool {
		promoted = nil
		for _, sentinel := range s.Sentinels {
			n := s.node(sentinel.primaryAddr())
			if n == nil || n == old || promoted != nil && n != promoted || role(n.Addr()) != "master" {
				return false
			}
			promoted = n
		}
		return true
	}) {
		tb.Fatalf("the sentinels do not agree on a new primary; the first one's log:\n%s", s.Sentinels[0].proc.output())
	}
	return promoted
}

// AwaitReplica waits until the replica has everything the primary has.
func (s *Sentinel) AwaitReplica(ctx context.Context, tb testing.TB) {
	tb.Helper()
	primary := s.Primary(tb)
	for _, n := range s.Nodes {
		if n != primary {
			awaitReplicas(ctx, tb, primary, []*Server{n})
		}
	}
}
