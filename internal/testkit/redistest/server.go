// Package redistest starts real Redis and Valkey servers for tests: one by itself ([Start]), one shared by the tests of a
// package ([Shared]), several that know nothing of each other ([StartMasters]), a primary with replicas ([StartReplicated]),
// one under Sentinels ([StartSentinel]) and a cluster ([StartCluster]). Options choose the program (see [Programs] for all
// there are), a clock that can be moved, TLS.
//
// A plain process is up in about 10 ms and needs no container engine, so there is no emulation of
// Redis in this module's tests: scripts, time to live, pub/sub and failover are the server's own.
//
// The binary is HOLDFAST_REDIS_SERVER, else redis-server, else valkey-server (see [Binary]). Without one, tests are skipped
// loudly; where CI=true they fail instead, because a suite that skips everything looks green.
//
// Not promised: that data survives [Server.Restart] (nothing is persisted), and that servers die with the test binary on
// systems other than Linux, where only the cleanups stop them. Methods that take no testing.TB report failures to the test that
// started the server and so must be called from its goroutine.
package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"
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

// Start starts a server until the test ends, without persistence. Where there is none it skips, or fails if CI=true.
func Start(tb testing.TB, opts ...Option) *Server { return startServer(tb, configure(tb, opts)) }

// StartMasters starts n servers that know nothing of each other, for a quorum lock. They are killed when the test ends.
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
	require.NoError(tb, s.start())
	tb.Cleanup(func() {
		s.proc.kill()
		if tb.Failed() {
			tb.Logf("log of the server on %s:\n%s", s.Addr(), s.proc.output())
		}
	})
	return s
}

// start finds a port and starts the server on it, again with another port when that was stolen in between.
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

// Version is the server's own version, such as "7.0.15". For Valkey it is Valkey's, not the Redis version it claims.
func (s *Server) Version() string { return s.version }

// Major is the first number of Version: 6 and up for Redis, 7 and up for Valkey.
func (s *Server) Major() int {
	var major int
	_, _ = fmt.Sscanf(s.version, "%d", &major)
	return major
}

// IsValkey says whether the server is Valkey.
func (s *Server) IsValkey() bool { return s.valkey }

// Client returns a client of the server, closed at the test's end. It sends only HELLO by itself, and dials once per attempt,
// so a dead server costs a test no five dials. change may alter the options before use.
func (s *Server) Client(tb testing.TB, change ...func(*redis.Options)) *redis.Client {
	return NewClient(tb, s.Addr(), change...)
}

// NewClient is [Server.Client] for any address, such as that of a proxy.
func NewClient(tb testing.TB, addr string, change ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{
		Addr: addr, DialerRetries: 1, DisableIdentity: true, MaintNotificationsConfig: noMaintNotifications(),
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
	sub := rdb.Subscribe(tb.Context(), channel)
	tb.Cleanup(func() { _ = sub.Close() }) // a test may have closed it itself
	_, err := sub.Receive(tb.Context())
	require.NoError(tb, err, "subscribe")
	return sub
}

// mine returns the test to report to. What stops a server would stop it for every test that shares it.
func (s *Server) mine(op string) testing.TB {
	if s.tb == nil {
		panic("redistest: " + op + " of the shared server would hit other tests; use redistest.Start")
	}
	return s.tb
}

// Pause stops the server (SIGSTOP) and returns when it has. Connections stay open; what is sent runs after [Server.Resume].
func (s *Server) Pause() {
	tb := s.mine("Pause")
	require.NoError(tb, s.proc.signal(Halt), "pause")
	require.True(tb, Within(patience, func() bool { return stopped(s.proc.cmd.Process.Pid) }), "pause: the server still runs")
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	tb := s.mine("Resume")
	require.NoError(tb, s.proc.signal(GoOn), "resume")
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

const (
	pollEvery = 2 * time.Millisecond
	patience  = 10 * time.Second // for anything a healthy server does within a second, on a machine that is busy
)

// process is one run of a server. The goroutine that reaps it is owned by the process and joined by kill.
type process struct {
	cmd    *exec.Cmd
	log    *os.File
	exited chan struct{} // closed by the reaper
}

// spawn starts a server with its output in dir/server.log. env is added to the environment.
func spawn(bin, dir string, env []string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, "server.log"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(bin, args...), log: log, exited: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log // files, so that exec needs no copying goroutine
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = dieWithParent()
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // killed is its usual end
	}()
	return p, nil
}

// kill ends the process, stopped or not, and waits for it. A second call does nothing.
func (p *process) kill() {
	select {
	case <-p.exited:
	default:
		_ = killAll(p.cmd.Process) // fails only when it is gone already
		<-p.exited
	}
	_ = p.log.Close()
}

func (p *process) signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// output is the tail of the log.
func (p *process) output() string {
	b, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}

// ready waits until the process answers on addr: this one, by its pid, and not another that took the port in between.
func (p *process) ready(addr string) error {
	var last error
	ok := Within(patience, func() bool {
		select {
		case <-p.exited:
			last = errors.New("it exited")
			return true
		default:
		}
		var info string
		if info, last = text(call(addr, "INFO", "server")); last != nil {
			return false
		}
		if got := InfoField(info, "process_id"); got != strconv.Itoa(p.cmd.Process.Pid) {
			last = fmt.Errorf("process %s answers instead", got)
		}
		return true
	})
	if !ok && last == nil {
		last = errors.New("no answer")
	}
	if last != nil {
		return fmt.Errorf("server on %s did not start: %w; its log:\n%s", addr, last, p.output())
	}
	return nil
}

// freePort asks the kernel for a port. Another process may take it before the server does, so callers try again.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Within polls cond until it is true or the time is up, and returns the last answer.
func Within(limit time.Duration, cond func() bool) bool {
	if cond() {
		return true
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		<-tick.C
		if cond() {
			return true
		}
	}
	return false
}

// InfoField is the value of "name:value" in an answer of INFO, empty if there is none.
func InfoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
