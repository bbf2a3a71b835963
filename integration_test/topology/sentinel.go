package topology

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// sentinel is a primary with a replica under Sentinels, which have no users of their own here.
type sentinel struct {
	about
	s *redistest.Sentinel
}

func (t *sentinel) Nodes() []Node                        { return processes(t.s.Nodes) }
func (t *sentinel) Serving(tb testing.TB, _ string) Node { return t.s.Primary(tb) }

func (t *sentinel) Connect(tb testing.TB, change ...Change) redis.UniversalClient {
	tb.Helper()
	o := options(t.s.Addrs(), change)
	o.MasterName = redistest.SentinelMaster
	return closing(tb, redis.NewFailoverClient(o.Failover()))
}

func (t *sentinel) Admin(tb testing.TB, change ...Change) redis.UniversalClient {
	tb.Helper()
	return t.Connect(tb, asDefault(change)...)
}

func (t *sentinel) Failover(tb testing.TB, _ string) Node {
	tb.Helper()
	t.s.AwaitReplica(tb.Context(), tb)
	return t.s.Failover(tb)
}

func (t *sentinel) KillServing(tb testing.TB, _ string) Node {
	tb.Helper()
	t.s.ReplaceSilent()
	old := t.s.Primary(tb)
	old.Kill()
	return t.s.AwaitPromotion(tb, old)
}

func (t *sentinel) LoseWrites(tb testing.TB, _ string, during func()) Node {
	tb.Helper()
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
