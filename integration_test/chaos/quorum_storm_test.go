//go:build linux

package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// quorumPlan is a storm over masters of a quorum and the processes that lock there.
func quorumPlan(seed uint64, storm time.Duration) plan {
	return plan{
		seed: seed, lease: time.Second, storm: storm, calm: 4 * time.Second, progress: true, processes: 3, actors: 4,
		gap: 300 * time.Millisecond, names: 3, period: 2 * time.Second, recovery: 2500 * time.Millisecond,
		shape: drawShape, kept: 0.5, local: localKinds(), global: quorumKinds(),
	}
}

// quorumKinds are the faults of masters that are drawn at random.
func quorumKinds() []string {
	kinds := without(slices.Sorted(maps.Keys(ofMasters)), "restart-middle", "foreign")
	if !haveCompiler() {
		kinds = without(kinds, "clock")
	}
	return kinds
}

// TestQuorum: masters are stopped, emptied and out of memory, a minority at a time, and processes
// cut off from some of them or all, in one direction or both, misled, stopped and killed. Clocks of
// masters are months apart, and half of the processes have proxies that keep their connections when
// a master is started anew. It is done once with hand-offs within the processes, and once without.
// And once each process lacks one of the masters all the time.
func TestQuorum(t *testing.T) {
	seed, duration := parameters(t)
	replay := fmt.Sprintf("%s=%d %s=%s go test -race ./chaos -run %s", seedEnv, seed, durationEnv, duration, t.Name())
	t.Logf("replay: %s", replay)
	rng := rand.New(rand.NewPCG(seed, 3))
	programs := redistest.Programs(t)
	storm := max(duration/10, 3*time.Second)
	handed := quorumPlan(rng.Uint64(), storm)
	handed.processes, handed.actors, handed.names = 2, 8, 2
	alone := quorumPlan(rng.Uint64(), storm)
	alone.alone, alone.staying = true, 6
	// not in every short storm, so soon
	alone.deal = &bag{rng: rand.New(rand.NewPCG(seed, 4)), left: []string{"restart"}}
	links := linksPlan(rng.Uint64(), storm)
	var total figures
	storms := []struct {
		name   string
		plan   plan
		target *target
	}{{"handed on", handed, nil}, {"alone", alone, nil}, {"links", links, nil}}
	if testing.Short() {
		storms = storms[:1]
	}
	for i := range storms { // they age while the first storm is on
		storms[i].target = startMasters(t, programs[rng.IntN(len(programs))], apart(rng)...)
	}
	for _, s := range storms {
		t.Run(s.name, func(t *testing.T) {
			f, found := s.plan.run(t, s.target)
			t.Logf("%s, %s: %s", s.target.name, s.name, &f)
			history.Report(t, found, replay)
			total.add(f)
		})
	}
	t.Logf("proof: chaos of quorums: seed %d: %s", seed, &total)
	require.Positive(t, total.grants)
	require.Positive(t, total.reentries)
	if duration >= time.Minute {
		require.Positive(t, total.handed)
		require.Positive(t, total.crashes)
		require.Positive(t, total.kinds["restart"])
		require.Positive(t, total.kinds["next-link"])
		require.Positive(t, total.kinds["foreign"])
	}
	if duration >= 3*time.Minute { // less time is not enough for all
		for _, kind := range append(handed.local, handed.global...) {
			require.Positive(t, total.kinds[kind], "no fault of the kind %s", kind)
		}
	}
}
