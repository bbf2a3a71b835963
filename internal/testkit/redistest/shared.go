package redistest

import (
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// shared is the server of this test binary. Started at most once; a failure is kept, so that each
// test reports it.
var shared struct {
	sync.Mutex
	tried  bool
	server *Server
	err    error
	more   []*Server // of examples
}

// Shared returns the one server that the tests of a package share, started at the first call. Tests
// on it use names of their own (t.Name() is one), and neither flush nor configure it;
// [Server.Pause] and [Server.Kill] panic. The package's TestMain must call [Main] for it to be
// stopped.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	s, err := theShared(binary(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func theShared(bin string) (*Server, error) {
	shared.Lock()
	defer shared.Unlock()
	if !shared.tried {
		shared.tried = true
		shared.server, shared.err = startShared(bin)
	}
	return shared.server, shared.err
}

func startShared(bin string) (*Server, error) {
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir}
	if err := s.start(); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

func stopShared() {
	shared.Lock()
	defer shared.Unlock()
	servers := shared.more
	if shared.server != nil {
		servers = append(servers, shared.server)
	}
	for _, s := range servers {
		s.proc.kill()
		s.remove()
	}
	shared.server, shared.more, shared.err, shared.tried = nil, nil, nil, false
}

// Main runs the tests of a package that uses [Shared]: it stops the shared server, then fails when
// a test left a goroutine behind, and ends the process with the exit code. A package without Shared
// can as well use leak.Main. m is a *testing.M, or one in something that has more to stop.
func Main(m interface{ Run() int }, more ...goleak.Option) {
	// A ClusterClient for Sentinel (NewFailoverClusterClient) goes on listening to the Sentinels
	// when it is closed, in these.
	const goRedis = "github.com/redis/go-redis/v9."
	goleak.VerifyTestMain(thenStop{m}, append(more, goleak.IgnoreAnyFunction(goRedis+"(*sentinelFailover).listen"),
		goleak.IgnoreAnyFunction(goRedis+"(*channel).initMsgChan.func1"),
		goleak.IgnoreAnyFunction(goRedis+"(*channel).initHealthCheck.func1"))...)
}

// thenStop stops the shared server between the tests and the search for leaks, because its reaper
// is a goroutine.
type thenStop struct{ m interface{ Run() int } }

// Run is called by goleak.
func (r thenStop) Run() int {
	defer stopShared()
	return r.m.Run()
}
