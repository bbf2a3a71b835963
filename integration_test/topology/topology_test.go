package topology

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // starting servers is mostly waiting
	redistest.Main(m)
}

// mutex is a lock of a client of its own, which is closed at the end of the test.
func mutex(t *testing.T, rdb redis.UniversalClient, name string) *rlock.Mutex {
	c := kindtest.NewClient(t, rdb, nil)
	return rlock.New(c, name)
}

// within is a context for one step.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// refused lists what the servers refused to the user.
func refused(top Topology) (entries []any) {
	for _, n := range top.Nodes() {
		if log, err := n.Try("ACL", "LOG"); err == nil { // some nodes may be dead
			entries = append(entries, log.([]any)...)
		}
	}
	return entries
}

// TestEveryTopologyStarts, and lets its user do only what the library does. What locks do on it is tested one folder up.
func TestEveryTopologyStarts(t *testing.T) {
	Each(t, All, func(t *testing.T, top Topology) {
		require.Equal(t, t.Name(), "TestEveryTopologyStarts/"+top.Name())
		h := kindtest.Take(within(t), t, mutex(t, top.Connect(t), "name").Lock)
		require.NoError(t, h.Unlock(within(t)))
		require.Empty(t, refused(top), "the rule allows what the library sends")
		require.ErrorContains(t, top.Connect(t).Keys(t.Context(), "*").Err(), "NOPERM")
		require.NotEmpty(t, refused(top), "the control: a refusal is seen")
		require.NoError(t, Admin(t, top).Set(t.Context(), "k", "v", time.Minute).Err())
		require.Equal(t, "v", top.Serving(t, "k").Command(t, "GET", "k"))
	})
}

func programs(names ...string) []redistest.Program {
	var all []redistest.Program
	for _, n := range names {
		all = append(all, redistest.Program{Name: n, Valkey: n[0] == 'v'})
	}
	return all
}

func TestOutermostAreOldestAndNewest(t *testing.T) {
	for _, c := range []struct{ have, want []string }{
		{[]string{"redis-6.0.16", "redis-7.0.15", "redis-8.6.3", "valkey-8.1.1", "valkey-9.1.2"},
			[]string{"redis-6.0.16", "redis-8.6.3", "valkey-9.1.2"}},
		{[]string{"redis-7.0.15"}, []string{"redis-7.0.15"}},
		{[]string{"valkey-8.1.1"}, []string{"valkey-8.1.1"}},
		{[]string{"redis-7.0.15", "valkey-8.1.1"}, []string{"redis-7.0.15", "valkey-8.1.1"}},
	} {
		require.Equal(t, programs(c.want...), outermost(programs(c.have...)))
	}
}

func TestMissingVersionsAreNamed(t *testing.T) {
	all := programs("redis-6.0.16", "redis-7.0.15", "redis-8.0.2", "redis-8.6.3", "valkey-8.1.1", "valkey-9.1.2")
	require.Empty(t, lacking(Single, all))
	require.Empty(t, lacking(Cluster, all))
	require.Equal(t, []string{"redis-8.0", "valkey-8"},
		lacking(Single, programs("redis-6.2.1", "redis-7.4.0", "redis-8.6.3", "valkey-9.0.0")))
	require.Equal(t, []string{"redis-8.6"}, lacking(Single,
		programs("redis-6.2.1", "redis-7.4.0", "redis-8.0.3", "redis-8.60.1", "valkey-8.0.0", "valkey-9.0.0")))
	require.Empty(t, lacking(Cluster, programs("redis-6.2.1", "valkey-9.0.0")))
	require.Equal(t, []string{"valkey"}, lacking(Sentinel, programs("redis-6.2.1", "redis-7.4.0")))
}

func TestEveryKindIsChosenOnceAVersion(t *testing.T) {
	for kind := Single; kind <= Cluster; kind <<= 1 {
		seen := map[string]bool{}
		for _, c := range choose(t, kind, some{containers: true}) {
			require.False(t, seen[c.name], c.name)
			seen[c.name] = true
		}
		require.NotEmpty(t, seen)
	}
}

func TestRuleForSixLeavesOutWhatSixDoesNotKnow(t *testing.T) {
	six, seven := rule("6.0.16"), rule("7.0.15")
	require.Contains(t, seven, "&*")
	require.Contains(t, seven, "+spublish")
	require.NotContains(t, six, "&*")
	require.NotContains(t, six, "+spublish")
	require.Len(t, six, len(seven)-4)
}
