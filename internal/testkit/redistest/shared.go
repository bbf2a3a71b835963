package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

// shared is the server of this test binary. Started at most once; a failure is kept, so that each test reports it.
var shared struct {
	sync.Mutex
	tried  bool
	server *Server
	err    error
	more   []*Server // of examples
}

// Shared is the server that a package's tests share, from the first call on. They use names of their own (t.Name() is one), and
// neither flush nor configure it; Pause and Kill panic. [Main], called by TestMain, stops it.
func Shared(tb testing.TB) *Server {
	s, err := theShared(binary(tb))
	require.NoError(tb, err)
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

// Main runs the tests of a package that uses [Shared]: it stops that server, then fails for a goroutine left behind, and exits.
// A package without Shared may use leak.Main. m is a *testing.M, or one in something that has more to stop.
func Main(m interface{ Run() int }, more ...goleak.Option) {
	// A ClusterClient for Sentinel (NewFailoverClusterClient) goes on listening to the Sentinels when it is closed, in these.
	leak.Quiet()
	const goRedis = "github.com/redis/go-redis/v9."
	goleak.VerifyTestMain(thenStop{m}, append(more, goleak.IgnoreAnyFunction(goRedis+"(*sentinelFailover).listen"),
		goleak.IgnoreAnyFunction(goRedis+"(*channel).initMsgChan.func1"),
		goleak.IgnoreAnyFunction(goRedis+"(*channel).initHealthCheck.func1"))...)
}

// thenStop stops the shared server between the tests and the search for leaks, because its reaper is a goroutine.
type thenStop struct{ m interface{ Run() int } }

// Run is called by goleak.
func (r thenStop) Run() int {
	defer stopShared()
	return r.m.Run()
}

// CloseAtEnd closes c at the test's end, in a busy machine's time: a client of the library, which this package may not know.
func CloseAtEnd(tb testing.TB, c interface {
	Close(ctx context.Context) error
}) {
	tb.Helper()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		switch err := c.Close(ctx); {
		case ctx.Err() != nil:
			tb.Errorf("close: %v", err)
		case err != nil:
			tb.Logf("close: %v", err) // what was left where the test has taken the server away
		}
	})
}

// Gatherer stands for a client and waits for n first commands, to send them together. Later ones go as they come.
type Gatherer struct {
	client *redis.Client
	n      int
	send   func(cmds []redis.Cmder)

	mu   sync.Mutex
	cmds []redis.Cmder
	sent chan struct{} // closed when they are
}

// Gather sends the first n commands to a client by a function.
func Gather(client *redis.Client, n int, send func(cmds []redis.Cmder)) *Gatherer {
	return &Gatherer{client: client, n: n, send: send, sent: make(chan struct{})}
}

// Process is the part of a client that sends a command.
func (g *Gatherer) Process(ctx context.Context, cmd redis.Cmder) error {
	g.mu.Lock()
	if len(g.cmds) == g.n {
		g.mu.Unlock()
		return g.client.Process(ctx, cmd)
	}
	g.cmds = append(g.cmds, cmd)
	last := len(g.cmds) == g.n
	g.mu.Unlock()
	if last {
		g.send(g.cmds)
		close(g.sent)
	}
	<-g.sent
	return cmd.Err()
}

// Around is a hook of go-redis that sends a command, or a pipeline whole, by a function: before it, after it, or not at all.
type Around func(send func() error, cmds ...redis.Cmder) error

// DialHook leaves connections alone.
func (Around) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook is for one command.
func (a Around) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return a(func() error { return next(ctx, cmd) }, cmd)
	}
}

// ProcessPipelineHook is for several.
func (a Around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return a(func() error { return next(ctx, cmds) }, cmds...)
	}
}

// must is a server that an Example has, or a panic: it has no testing.TB to report to.
func must(start func(bin string) (*Server, error)) *Server {
	bin, ok := Binary()
	if !ok {
		panic("redistest: " + missing())
	}
	s, err := start(bin)
	if err != nil {
		panic(err)
	}
	return s
}

// ForExample returns the address of the shared server for an Example. It panics if there is no server.
func ForExample() (addr string) { return must(theShared).Addr() }

// ForExamples is ForExample for n servers that know nothing of each other, started at each call. [Main] stops them.
func ForExamples(n int) (addrs []string) {
	shared.Lock()
	defer shared.Unlock()
	for range n {
		s := must(startShared)
		shared.more = append(shared.more, s)
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// call sends one command on a connection of its own and returns the reply: string, int64, []any or nil. It is not a go-redis
// client, as one says HELLO and more on each connection, which would stand in the command counts that tests look at.
func call(addr string, args ...string) (any, error) { return callWithin(time.Second, addr, args...) }

// callWithin is call with a limit of its own.
func callWithin(limit time.Duration, addr string, args ...string) (any, error) {
	conn, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return nil, err
	}
	return readReply(bufio.NewReader(conn))
}

// readReply reads one RESP2 reply.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return nil, errors.New("empty line in reply")
	}
	switch kind, rest := line[0], line[1:]; kind {
	case '+':
		return rest, nil
	case '-':
		return nil, errors.New(rest)
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '$', '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return nil, err
		}
		if kind == '$' {
			b := make([]byte, n+2)
			_, err := io.ReadFull(r, b)
			return string(b[:n]), err
		}
		list := make([]any, n)
		for i := range list {
			if list[i], err = readReply(r); err != nil {
				return nil, err
			}
		}
		return list, nil
	default:
		return nil, fmt.Errorf("unknown reply %q", line)
	}
}

// text is the reply of a command that answers with a string.
func text(reply any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	s, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("reply is %T, not a string", reply)
	}
	return s, nil
}

// Command sends a command on a connection of its own, as the default user and past any proxy, for what tests do to a server:
// CONFIG, ACL SETUSER, SCRIPT FLUSH, DEBUG (see [Debug]). The reply is string, int64, []any or nil; an error fails.
func (s *Server) Command(tb testing.TB, args ...string) any {
	reply, err := s.Try(args...)
	require.NoError(tb, err, "%s", strings.Join(args, " "))
	return reply
}

// Try is [Server.Command] for commands that may fail.
func (s *Server) Try(args ...string) (any, error) { return callWithin(patience, s.Addr(), args...) }

// Field asks the server for INFO of a section and returns the value of one field, empty if there is none.
func (s *Server) Field(tb testing.TB, section, name string) string {
	info, err := text(s.Try("INFO", section))
	require.NoError(tb, err, "INFO %s", section)
	return InfoField(info, name)
}

// CommandCalls is how often the server ran each command, also in scripts, since its start or ResetStats, by lower-case name,
// subcommands as "client|id". It leaves out itself and what this package sent: INFO and CONFIG RESETSTAT.
func (s *Server) CommandCalls(tb testing.TB) map[string]int64 {
	calls, _ := s.commandStats(tb)
	return calls
}

// CommandTime is how long the server, by its account, worked for each command; a script's time includes what it calls.
func (s *Server) CommandTime(tb testing.TB) map[string]time.Duration {
	_, took := s.commandStats(tb)
	return took
}

func (s *Server) commandStats(tb testing.TB) (calls map[string]int64, took map[string]time.Duration) {
	tb.Helper()
	info, err := text(s.Try("INFO", "commandstats"))
	require.NoError(tb, err, "commandstats")
	calls, took = make(map[string]int64), make(map[string]time.Duration)
	for line := range strings.Lines(info) {
		name, stat, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok || name == "info" || strings.HasPrefix(name, "config") {
			continue
		}
		var n, usec int64
		if _, err := fmt.Sscanf(stat, "%d,usec=%d", &n, &usec); err != nil {
			tb.Fatalf("commandstats: %q: %v", line, err)
		}
		if n > 0 { // 6.0 lists commands that were refused, too
			calls[name], took[name] = n, time.Duration(usec)*time.Microsecond
		}
	}
	return calls, took
}

// ResetStats sets what [Server.CommandCalls] and [Server.CommandTime] return to zero.
func (s *Server) ResetStats(tb testing.TB) {
	_, err := s.Try("CONFIG", "RESETSTAT")
	require.NoError(tb, err, "resetstat")
}
