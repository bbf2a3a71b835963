package redistest

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// Tests break connections by the dozen, and go-redis would write a line to stderr for each.
func init() { logging.Disable() }

// Server is one real server, listening on a port of the loopback interface.
type Server struct {
	tb   testing.TB // who started it; nil for the shared one
	bin  string
	dir  string
	args []string // all but the port
	port int
	proc *process

	watches int    // the port of the primary if this is a Sentinel, else 0
	clock   *clock // nil: the machine's
	certs   *Certs // nil: no TLS
	tlsPort int

	version string
	valkey  bool
}

// Start starts a server for one test and waits until it answers. It is killed when the test ends.
// It persists nothing. The test is skipped where there is no server to start, and fails if CI=true.
func Start(tb testing.TB, opts ...Option) *Server {
	return startServer(tb, configure(tb, opts))
}

// StartMasters starts n servers that know nothing of each other, as a quorum lock wants them. Each
// is killed when the test ends.
func StartMasters(tb testing.TB, n int, opts ...Option) []*Server {
	c := configure(tb, opts)
	masters := make([]*Server, n)
	for i := range masters {
		masters[i] = startServer(tb, c)
	}
	return masters
}

// startServer starts one server of a config, with args before the config's own.
func startServer(tb testing.TB, c config, args ...string) *Server {
	tb.Helper()
	s := c.server(tb, args...)
	if err := s.start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		s.proc.kill()
		if tb.Failed() {
			tb.Logf("log of the server on %s:\n%s", s.Addr(), s.proc.output())
		}
	})
	return s
}

// start finds a port and starts the server on it, again with another port when that was stolen in
// between.
func (s *Server) start() error {
	var err error
	for range 5 {
		if s.port, err = freePort(); err != nil {
			return err
		}
		if s.certs != nil {
			if s.tlsPort, err = freePort(); err != nil {
				return err
			}
		}
		if err = s.run(); err == nil {
			return nil
		}
	}
	return err
}

// run starts the server on its port.
func (s *Server) run() error {
	args := append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no",
		"--dir", s.dir,
	}, s.args...)
	if s.watches != 0 {
		conf, err := s.sentinelConf()
		if err != nil {
			return err
		}
		args = []string{conf, "--sentinel"}
	}
	if s.certs != nil {
		args = append(args, s.certs.args(s.tlsPort)...)
	}
	var env []string
	if s.clock != nil {
		env = s.clock.env()
	}
	proc, err := spawn(s.bin, s.dir, env, args...)
	if err != nil {
		return err
	}
	if err := proc.ready(s.Addr()); err != nil {
		proc.kill()
		return err
	}
	if err := s.identify(); err != nil {
		proc.kill() // whoever tries again starts another one
		return err
	}
	s.proc = proc
	return nil
}

// identify asks the server what it is.
func (s *Server) identify() error {
	info, err := text(callWithin(patience, s.Addr(), "INFO", "server"))
	if err != nil {
		return err
	}
	s.version = InfoField(info, "valkey_version")
	s.valkey = s.version != ""
	if !s.valkey {
		s.version = InfoField(info, "redis_version")
	}
	return nil
}

// Addr is the server's address, an IP literal with port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Version is the server's own version, such as "7.0.15". For Valkey it is Valkey's, not the Redis
// version it claims.
func (s *Server) Version() string { return s.version }

// Major is the first number of Version: 6 and up for Redis, 7 and up for Valkey.
func (s *Server) Major() int {
	var major int
	_, _ = fmt.Sscanf(s.version, "%d", &major)
	return major
}

// IsValkey says whether the server is Valkey.
func (s *Server) IsValkey() bool { return s.valkey }

// Client returns a client of the server, closed when the test ends. It sends nothing on its own
// account but HELLO, and dials once per attempt, so that a test of a dead server does not wait for
// go-redis to try five times. change may alter the options before use.
func (s *Server) Client(tb testing.TB, change ...func(*redis.Options)) *redis.Client {
	return NewClient(tb, s.Addr(), change...)
}

// NewClient is [Server.Client] for any address, such as that of a proxy.
func NewClient(tb testing.TB, addr string, change ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{
		Addr:                     addr,
		DialerRetries:            1,
		DisableIdentity:          true,
		MaintNotificationsConfig: noMaintNotifications(),
	}
	for _, f := range change {
		f(o)
	}
	rdb := redis.NewClient(o)
	tb.Cleanup(func() { _ = rdb.Close() }) // a test may have closed it itself
	return rdb
}

// Subscribed listens to a channel until the end of the test. The server has confirmed that when it returns.
func Subscribed(tb testing.TB, rdb redis.UniversalClient, channel string) *redis.PubSub {
	tb.Helper()
	sub := rdb.Subscribe(tb.Context(), channel)
	tb.Cleanup(func() { _ = sub.Close() }) // a test may have closed it itself
	if _, err := sub.Receive(tb.Context()); err != nil {
		tb.Fatalf("subscribe: %v", err)
	}
	return sub
}

// mine returns the test to report to. What stops a server would stop it for every test that shares
// it.
func (s *Server) mine(op string) testing.TB {
	if s.tb == nil {
		panic("redistest: " + op + " of the shared server would hit other tests; use redistest.Start")
	}
	return s.tb
}

// Pause stops the server (SIGSTOP) and returns when it has stopped. Connections stay open and are
// not answered; what is sent meanwhile runs after [Server.Resume]. A server still paused when the
// test ends is killed as usual.
func (s *Server) Pause() {
	tb := s.mine("Pause")
	tb.Helper()
	if err := s.proc.signal(Halt); err != nil {
		tb.Fatalf("pause: %v", err)
	}
	if !Within(patience, func() bool { return stopped(s.proc.cmd.Process.Pid) }) {
		tb.Fatal("pause: the server still runs")
	}
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	tb := s.mine("Resume")
	tb.Helper()
	if err := s.proc.signal(GoOn); err != nil {
		tb.Fatalf("resume: %v", err)
	}
}

// Kill ends the server at once (SIGKILL) with all its data, and returns when it is gone.
func (s *Server) Kill() {
	s.mine("Kill").Helper()
	s.proc.kill()
}

// Restart starts the server again on the same port, empty, after [Server.Kill] or instead of it.
func (s *Server) Restart() {
	tb := s.mine("Restart")
	tb.Helper()
	s.proc.kill()
	var err error
	if !Within(patience, func() bool { err = s.run(); return err == nil }) { // the port may be taken for a moment
		tb.Fatal(err)
	}
}

// remove deletes what the server left on disk; for a server that has no test's directory.
func (s *Server) remove() { _ = os.RemoveAll(s.dir) }
