package topology

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// patience is for what a healthy container does within a second, on a machine that is busy.
const patience = 30 * time.Second

// container is a server in a container, reached by its published port.
type container struct {
	tb    testing.TB
	addr  string
	admin *redis.Client
}

// quiet swallows the ten lines that each container would write into the log of its test. Errors are returned as well.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// startContainer starts a server of this image. It waits for the log line and an answer: the port opens a moment later.
func startContainer(tb testing.TB, name, image string) Topology {
	defaults(tb)
	ctr, err := testcontainers.Run(tb.Context(), image,
		testcontainers.WithLogger(quiet{}),
		testcontainers.WithExposedPorts("6379/tcp"),
		testcontainers.WithCmdArgs("--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"),
		testcontainers.WithWaitStrategy(wait.ForLog("Ready to accept connections").WithPollInterval(5*time.Millisecond)))
	// before err is looked at: it may have started
	testcontainers.CleanupContainer(tb, ctr, testcontainers.StopTimeout(0))
	if err != nil {
		redistest.Unavailable(tb, "no container of "+image+": "+err.Error())
	}
	addr, err := ctr.PortEndpoint(tb.Context(), "6379/tcp", "")
	require.NoError(tb, err)
	c := &container{tb: tb, addr: literal(addr)}
	c.admin = redis.NewClient(asDefaultOptions(c.addr))
	tb.Cleanup(func() { _ = c.admin.Close() })
	c.Command(tb, append([]string{"ACL", "SETUSER", User}, rule(c.version())...)...)
	return &servers{about{Single, name}, []Node{c}}
}

// defaults sets what testcontainers needs, unless chosen otherwise. Its reaper is one more image to fetch: the cleanup stops
// containers, which hold nothing. In a container it would look for ports on the gateway.
func defaults(tb testing.TB) {
	for name, value := range map[string]string{
		"TESTCONTAINERS_RYUK_DISABLED": "true",
		"TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1",
	} {
		if _, set := os.LookupEnv(name); !set {
			require.NoError(tb, os.Setenv(name, value))
		}
	}
}

// literal turns localhost into an address: go-redis resolves names when it makes a client.
func literal(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err == nil && host == "localhost" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// asDefaultOptions are those of an administrator who gets the replies of RESP2, as from redistest's servers.
func asDefaultOptions(addr string) *redis.Options {
	o := options([]string{addr}, asDefault(nil)).Simple()
	o.Protocol = 2
	return o
}

// version waits for the server to answer and asks it what it is.
func (c *container) version() string {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(c.tb.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		info := c.admin.InfoMap(ctx, "server")
		if info.Err() == nil {
			return cmp.Or(info.Item("Server", "valkey_version"), info.Item("Server", "redis_version"))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.tb.Fatalf("the server in the container does not answer: %v", info.Err())
		}
	}
}

// Addr is the published port. It does not survive a restart of the container, so there is no Restart.
func (c *container) Addr() string { return c.addr }

func (c *container) Command(tb testing.TB, args ...string) any {
	reply, err := c.Try(args...)
	require.NoError(tb, err, "%v", args)
	return reply
}

func (c *container) Try(args ...string) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	words := make([]any, len(args))
	for i, a := range args {
		words[i] = a
	}
	reply, err := c.admin.Do(ctx, words...).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return reply, err
}

// What stops a server is for processes: tests that do it say so, by [EachLocal] or [EachOutermost].

func (c *container) Pause()  { c.tb.Fatal("topology: a container is not paused") }
func (c *container) Resume() { c.tb.Fatal("topology: a container is not paused") }
func (c *container) Kill()   { c.tb.Fatal("topology: a container is not killed") }

// about is what all topologies can say of themselves.
type about struct {
	kind Kind
	name string
}

func (a about) Kind() Kind   { return a.kind }
func (a about) Name() string { return a.name }

// servers is a single one.
type servers struct {
	about
	nodes []Node
}

func (s *servers) Nodes() []Node                       { return s.nodes }
func (s *servers) Serving(_ testing.TB, _ string) Node { return s.nodes[0] }

func (s *servers) Connect(tb testing.TB, change ...Change) redis.UniversalClient {
	return connectTo(tb, s.nodes[0].Addr(), change)
}

// processes are servers as nodes.
func processes(all []*redistest.Server) []Node {
	nodes := make([]Node, len(all))
	for i, s := range all {
		nodes[i] = s
	}
	return nodes
}

// start starts a topology of processes of this program. The user stands in the command line, so that a restarted server has it.
func start(tb testing.TB, kind Kind, p redistest.Program, opts []redistest.Option) Topology {
	tb.Helper()
	a := about{kind, processName(kind, p)}
	user := redistest.Args(append([]string{"--user", User}, rule(p.Version)...)...)
	opts = append([]redistest.Option{redistest.Exec(p.Path), user}, opts...)
	switch kind {
	case Single:
		return &servers{a, processes(redistest.StartMasters(tb, 1, opts...))}
	case Replicated:
		return &replicated{a, redistest.StartReplicated(tb, 2, opts...)}
	case Sentinel:
		return &sentinel{a, redistest.StartSentinel(tb, opts...)}
	case Cluster:
		return &cluster{a, redistest.StartCluster(tb, 3, 1, opts...)}
	}
	tb.Fatalf("topology: %d is not one kind", kind)
	return nil
}

// processName is the name of the subtest.
func processName(kind Kind, p redistest.Program) string {
	return kind.String() + "/" + p.Name + "/process"
}
