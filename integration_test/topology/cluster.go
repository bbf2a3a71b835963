package topology

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// cluster is a Redis Cluster.
type cluster struct {
	about
	c *redistest.Cluster
}

func (t *cluster) Nodes() []Node                          { return processes(t.c.Nodes) }
func (t *cluster) Serving(tb testing.TB, key string) Node { return t.c.Master(tb, key) }

// Connect leaves the interval at which go-redis reloads the map of slots at its default of a minute, as users do.
func (t *cluster) Connect(tb testing.TB, change ...Change) redis.UniversalClient {
	return closing(tb, redis.NewClusterClient(options(t.c.Addrs(), change).Cluster()))
}

func (t *cluster) Failover(tb testing.TB, key string) Node { return t.c.Switch(tb, key) }

func (t *cluster) KillServing(tb testing.TB, key string) Node {
	_, promoted := t.c.KillMaster(tb, key)
	return promoted
}

func (t *cluster) LoseWrites(tb testing.TB, key string, during func()) Node {
	t.c.AwaitReplicas(tb.Context(), tb, key)
	master := t.c.Master(tb, key)
	replicas := t.c.Replicas(tb, key)
	t.c.ReplaceSilent()
	master.Strand(tb, replicas)
	during()
	master.Kill()
	for _, r := range replicas {
		r.Resume()
	}
	return t.c.AwaitPromotion(tb, key, master)
}

func (t *cluster) Reshard(tb testing.TB, key string) { t.c.MoveSlot(tb, key, t.other(tb, key)) }

func (t *cluster) BeginReshard(tb testing.TB, key string) *redistest.Move {
	return t.c.BeginMove(tb, key, t.other(tb, key))
}

// other is a master that does not serve the key.
func (t *cluster) other(tb testing.TB, key string) *redistest.Server {
	tb.Helper()
	serving := t.c.Master(tb, key)
	for _, s := range t.c.Masters(tb) {
		if s != serving {
			return s
		}
	}
	tb.Fatal("the cluster has one master only")
	return nil
}

// sentinel is a primary with a replica under Sentinels, which have no users of their own here.
type sentinel struct {
	about
	s *redistest.Sentinel
}

func (t *sentinel) Nodes() []Node                        { return processes(t.s.Nodes) }
func (t *sentinel) Serving(tb testing.TB, _ string) Node { return t.s.Primary(tb) }

func (t *sentinel) Connect(tb testing.TB, change ...Change) redis.UniversalClient {
	o := options(t.s.Addrs(), change)
	o.MasterName = redistest.SentinelMaster
	return closing(tb, redis.NewFailoverClient(o.Failover()))
}

func (t *sentinel) Failover(tb testing.TB, _ string) Node {
	t.s.AwaitReplica(tb.Context(), tb)
	return t.s.Failover(tb)
}

func (t *sentinel) KillServing(tb testing.TB, _ string) Node {
	t.s.ReplaceSilent()
	old := t.s.Primary(tb)
	old.Kill()
	return t.s.AwaitPromotion(tb, old)
}

func (t *sentinel) LoseWrites(tb testing.TB, _ string, during func()) Node {
	t.s.AwaitReplica(tb.Context(), tb)
	primary := t.s.Primary(tb)
	var replicas []*redistest.Server
	for _, n := range t.s.Nodes {
		if n != primary {
			replicas = append(replicas, n)
		}
	}
	t.s.ReplaceSilent()
	primary.Strand(tb, replicas)
	during()
	primary.Kill()
	for _, r := range replicas {
		r.Resume()
	}
	return t.s.AwaitPromotion(tb, primary)
}

// replicated is a primary with replicas, whose clients know it by an address that moves.
type replicated struct {
	about
	r *redistest.Replicated
}

func (t *replicated) Nodes() []Node                       { return processes(t.r.Nodes) }
func (t *replicated) Serving(_ testing.TB, _ string) Node { return t.r.Primary() }

func (t *replicated) Connect(tb testing.TB, change ...Change) redis.UniversalClient {
	return connectTo(tb, t.r.Nodes[0].Addr(), append([]Change{moving(func() Node { return t.r.Primary() })}, change...))
}

// moving makes a client dial whichever server is the primary at that moment.
func moving(primary func() Node) Change {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	return func(o *redis.UniversalOptions) {
		o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, primary().Addr())
		}
	}
}

func (t *replicated) Failover(tb testing.TB, _ string) Node {
	t.r.AwaitReplicas(tb.Context(), tb)
	return t.r.Failover(tb)
}

func (t *replicated) KillServing(tb testing.TB, _ string) Node {
	t.r.Primary().Kill()
	return t.r.Failover(tb)
}

func (t *replicated) LoseWrites(tb testing.TB, _ string, during func()) Node {
	t.r.AwaitReplicas(tb.Context(), tb)
	for _, s := range t.r.Replicas() {
		t.r.Detach(tb, s)
	}
	during()
	t.r.Primary().Kill()
	return t.r.Failover(tb)
}

// Replicator is a topology whose AwaitReplicas returns when a key's replicas have all of its server: its death loses nothing.
type Replicator interface {
	AwaitReplicas(tb testing.TB, key string)
}

func (t *replicated) AwaitReplicas(tb testing.TB, _ string) { t.r.AwaitReplicas(tb.Context(), tb) }

func (t *sentinel) AwaitReplicas(tb testing.TB, _ string) { t.s.AwaitReplica(tb.Context(), tb) }

func (t *cluster) AwaitReplicas(tb testing.TB, key string) { t.c.AwaitReplicas(tb.Context(), tb, key) }
