//go:build linux

package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// familyPlan is a storm over processes each of which uses read-write locks, semaphores, latches and
// elections on one client.
func familyPlan(seed uint64, storm time.Duration, t *target) plan {
	p := calmAfterStorm(seed, 0, storm, t)
	p.fair, p.keeping, p.kinds = false, 0, allKinds()
	p.storm, p.calm = storm, min(storm, bound)
	p.actors, p.names, p.period = 3, 1, 700*time.Millisecond // latches with many calls of unknown outcome take long to check
	return p
}

// TestFamily: the storm of TestChaos over the other kinds of locks, all at once: on a single server,
// and in a longer run on a cluster and behind Sentinels too.
func TestFamily(t *testing.T) {
	seed, duration := parameters(t)
	replay := fmt.Sprintf("%s=%d %s=%s go test -race ./chaos -run %s", seedEnv, seed, durationEnv, duration, t.Name())
	t.Logf("replay: %s", replay)
	rng := rand.New(rand.NewPCG(seed, 5))
	programs := redistest.Programs(t)
	rng.Shuffle(len(programs), func(i, k int) { programs[i], programs[k] = programs[k], programs[i] })
	starts := []func(testing.TB) *target{func(tb testing.TB) *target { return startServer(tb, programs[0]) }}
	if duration >= time.Minute {
		starts = append(starts, func(tb testing.TB) *target { return startCluster(tb, programs[len(programs)/2]) })
		modern := slices.DeleteFunc(slices.Clone(programs),
			func(p redistest.Program) bool { return strings.HasPrefix(p.Version, "6.") })
		if len(modern) > 0 {
			starts = append(starts, func(tb testing.TB) *target { return startSentinel(tb, modern[0]) })
		}
	}
	storm := max(duration/8, 2*time.Second)
	var mu sync.Mutex // guards the next
	var total figures
	t.Run("storms", func(t *testing.T) { // at one time: they wait more than they work
		for i, start := range starts {
			seed := rng.Uint64()
			t.Run(string([]mode{single, cluster, sentinel}[i]), func(t *testing.T) {
				t.Parallel()
				target := start(t)
				f, found := familyPlan(seed, storm, target).run(t, target)
				t.Logf("%s: %s", target.name, &f)
				history.Report(t, found, replay)
				mu.Lock()
				defer mu.Unlock()
				total.add(f)
			})
		}
	})
	t.Logf("proof: chaos of the family: seed %d: %s", seed, &total)
	if duration < time.Minute { // so short a run has some of each
		require.Empty(t, untouched(&total))
		return
	}
	for _, e := range total.others.Missing() {
		require.Equal(t, history.End, e.Kind, "has not happened: %s", e) // who of them loses is up to chance
	}
	require.Positive(t, total.losses)
	require.Positive(t, total.crashes)
}

// untouched are the kinds with which nothing was done.
func untouched(f *figures) (list []history.Family) {
	for _, kind := range allKinds() {
		if f.others[granted[kind]] == 0 {
			list = append(list, kind)
		}
	}
	return list
}

// granted is the least that happens with each kind.
var granted = map[history.Family]history.Event{
	history.ReadWrite: {Of: history.ReadWrite, Kind: history.Lock, Result: history.OK, Shared: true},
	history.Permits:   {Of: history.Permits, Kind: history.Lock, Result: history.OK},
	history.Latches:   {Of: history.Latches, Kind: history.CountDown, Result: history.OK},
	history.Elections: {Of: history.Elections, Kind: history.Lock, Result: history.OK},
}
