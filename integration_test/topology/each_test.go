package topology

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

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
