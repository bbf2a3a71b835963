package topology

import "testing"

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
