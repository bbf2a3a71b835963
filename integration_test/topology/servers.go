package topology

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

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
	tb.Helper()
	return connectTo(tb, s.nodes[0].Addr(), change)
}

func (s *servers) Admin(tb testing.TB, change ...Change) redis.UniversalClient {
	tb.Helper()
	return s.Connect(tb, asDefault(change)...)
}

// processes are servers as nodes.
func processes(all []*redistest.Server) []Node {
	nodes := make([]Node, len(all))
	for i, s := range all {
		nodes[i] = s
	}
	return nodes
}

// start starts a topology of processes of this program. The user stands in the command line, so
// that a restarted server has it.
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
