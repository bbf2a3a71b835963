package topology

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// replicated is a primary with replicas, whose clients know it by an address that moves.
type replicated struct {
	about
	r *redistest.Replicated
}

func (t *replicated) Nodes() []Node                       { return processes(t.r.Nodes) }
func (t *replicated) Serving(_ testing.TB, _ string) Node { return t.r.Primary() }

func (t *replicated) Connect(tb testing.TB, change ...Change) redis.UniversalClient {
	tb.Helper()
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

func (t *replicated) Admin(tb testing.TB, change ...Change) redis.UniversalClient {
	tb.Helper()
	return t.Connect(tb, asDefault(change)...)
}

func (t *replicated) Failover(tb testing.TB, _ string) Node {
	tb.Helper()
	t.r.AwaitReplicas(tb.Context(), tb)
	return t.r.Failover(tb)
}

func (t *replicated) KillServing(tb testing.TB, _ string) Node {
	tb.Helper()
	t.r.Primary().Kill()
	return t.r.Failover(tb)
}

func (t *replicated) LoseWrites(tb testing.TB, _ string, during func()) Node {
	tb.Helper()
	t.r.AwaitReplicas(tb.Context(), tb)
	for _, s := range t.r.Replicas() {
		t.r.Detach(tb, s)
	}
	during()
	t.r.Primary().Kill()
	return t.r.Failover(tb)
}

// Replicator is a topology that can be waited for: AwaitReplicas returns when the replicas of a
// key's server have all that it has now, so that nothing of it is lost when it dies.
type Replicator interface {
	AwaitReplicas(tb testing.TB, key string)
}

func (t *replicated) AwaitReplicas(tb testing.TB, _ string) {
	tb.Helper()
	t.r.AwaitReplicas(tb.Context(), tb)
}

func (t *sentinel) AwaitReplicas(tb testing.TB, _ string) {
	tb.Helper()
	t.s.AwaitReplica(tb.Context(), tb)
}

func (t *cluster) AwaitReplicas(tb testing.TB, key string) {
	tb.Helper()
	t.c.AwaitReplicas(tb.Context(), tb, key)
}
