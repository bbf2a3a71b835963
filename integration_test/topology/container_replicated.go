package topology

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// containers is a primary with replicas, each in a container. They reach each other by the
// addresses of the containers' network, clients reach them by published ports.
type containers struct {
	about
	nodes   []*container
	primary atomic.Pointer[container]
}

// replicate gives a primary two replicas.
func replicate(tb testing.TB, a about, image string, primary *container) Topology {
	tb.Helper()
	t := &containers{about: a, nodes: []*container{primary, runContainer(tb, image), runContainer(tb, image)}}
	t.primary.Store(primary)
	t.follow(tb, primary)
	t.AwaitReplicas(tb, "")
	return t
}

// follow makes all other nodes replicas of the primary. One that is dead or paused is left as it
// is.
func (t *containers) follow(tb testing.TB, primary *container) {
	tb.Helper()
	ip, err := primary.ctr.ContainerIP(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	for _, c := range t.nodes {
		if c != primary && !c.stopped.Load() {
			c.Command(tb, "REPLICAOF", ip, "6379")
		}
	}
}

func (t *containers) Nodes() []Node {
	nodes := make([]Node, len(t.nodes))
	for i, c := range t.nodes {
		nodes[i] = c
	}
	return nodes
}

func (t *containers) Serving(_ testing.TB, _ string) Node { return t.primary.Load() }

func (t *containers) Connect(tb testing.TB, change ...Change) redis.UniversalClient {
	tb.Helper()
	return connectTo(tb, t.nodes[0].Addr(), append([]Change{moving(func() Node { return t.primary.Load() })},
		change...))
}

func (t *containers) Admin(tb testing.TB, change ...Change) redis.UniversalClient {
	tb.Helper()
	return t.Connect(tb, asDefault(change)...)
}

// AwaitReplicas waits until all replicas that run have what the primary has now.
func (t *containers) AwaitReplicas(tb testing.TB, _ string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	want := t.primary.Load().offset(tb, "master_repl_offset")
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for _, c := range t.nodes {
		if c == t.primary.Load() || c.stopped.Load() {
			continue
		}
		for c.replication(tb, "master_link_status") != "up" || c.offset(tb, "slave_repl_offset") < want {
			select {
			case <-tick.C:
			case <-ctx.Done():
				tb.Fatalf("replica %s lags behind", c.addr)
			}
		}
	}
}

// Failover promotes the first replica that runs.
func (t *containers) Failover(tb testing.TB, _ string) Node {
	tb.Helper()
	t.AwaitReplicas(tb, "")
	return t.promote(tb)
}

func (t *containers) KillServing(tb testing.TB, _ string) Node {
	tb.Helper()
	t.primary.Load().Kill()
	return t.promote(tb)
}

func (t *containers) LoseWrites(tb testing.TB, _ string, during func()) Node {
	tb.Helper()
	t.AwaitReplicas(tb, "")
	for _, c := range t.nodes {
		if c != t.primary.Load() {
			c.Command(tb, "REPLICAOF", "127.0.0.1", "1") // nobody listens there: it keeps what it has
		}
	}
	during()
	t.primary.Load().Kill()
	return t.promote(tb)
}

func (t *containers) promote(tb testing.TB) Node {
	tb.Helper()
	for _, c := range t.nodes {
		if c == t.primary.Load() || c.stopped.Load() {
			continue
		}
		c.Command(tb, "REPLICAOF", "NO", "ONE")
		t.primary.Store(c)
		t.follow(tb, c)
		return c
	}
	tb.Fatal("no replica runs")
	return nil
}

// replication is a field of INFO replication.
func (c *container) replication(tb testing.TB, field string) string {
	tb.Helper()
	return redistest.InfoField(c.Command(tb, "INFO", "replication").(string), field)
}

// offset is a field that is a position in the stream of writes.
func (c *container) offset(tb testing.TB, field string) int64 {
	tb.Helper()
	n, err := strconv.ParseInt(c.replication(tb, field), 10, 64)
	if err != nil {
		tb.Fatalf("%s: %v", field, err)
	}
	return n
}
