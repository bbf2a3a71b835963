//go:build linux

package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// The variables that repeat a run and make it longer.
const (
	seedEnv     = "HOLDFAST_SEED"
	durationEnv = "HOLDFAST_DURATION"
)

// localKinds are the faults of single processes that are drawn at random.
func localKinds() []string { return without(slices.Sorted(maps.Keys(local)), "next-link") }

// serverKinds are the faults that a single server bears.
func serverKinds(t *target) (kinds []string) {
	for kind := range global {
		if (kind != "failover" || t.failover != nil) && (kind != "clock" || t.clock) {
			kinds = append(kinds, kind)
		}
	}
	if t.mode != single { // a server that is silent for long is replaced, with all that it has not passed on
		kinds = []string{"failover", "kill-pubsub", "kill-clients", "script-flush", "out-of-memory"}
	}
	slices.Sort(kinds)
	return kinds
}

// TestChaos divides its time over all servers that there are, in slices of 15 s or so, and from a
// minute on a cluster, from two on Sentinels.
func TestChaos(t *testing.T) {
	seed, duration := parameters(t)
	replay := fmt.Sprintf("make chaos SEED=%d DURATION=%s", seed, duration)
	t.Logf("replay: %s", replay)
	rng := rand.New(rand.NewPCG(seed, 0))
	programs := redistest.Programs(t)
	rng.Shuffle(len(programs), func(i, k int) { programs[i], programs[k] = programs[k], programs[i] })
	programs = programs[:min(max(int(duration/(6*time.Second)), 1), len(programs))] // less time is not enough for all
	shares := len(programs)
	withCluster, withSentinel := duration >= time.Minute, duration >= 2*time.Minute
	for _, with := range []bool{withCluster, withSentinel} {
		if with {
			shares++
		}
	}
	share := duration / time.Duration(shares)
	var total figures
	runs := 0
	// not in every run, so soon
	deal := &bag{rng: rand.New(rand.NewPCG(seed, 1)), left: []string{"no-scripts", "no-publish"}}
	do := func(name string, start func(t testing.TB) *target) {
		t.Run(name, func(t *testing.T) {
			slices := max(1, int(share/(14*time.Second)))
			target := start(t)
			for range slices {
				p := calmAfterStorm(rng.Uint64(), runs, share/time.Duration(slices), target)
				p.deal = deal
				f, v := p.run(t, target)
				runs++
				t.Logf("%s, fair %t: %s", name, p.fair, &f)
				history.Report(t, v, replay)
				total.add(f)
			}
		})
	}
	for _, p := range programs {
		do(p.Name, func(t testing.TB) *target { return startServer(t, p) })
	}
	if withCluster {
		p := programs[rng.IntN(len(programs))]
		do("cluster-"+p.Name, func(t testing.TB) *target { return startCluster(t, p) })
	}
	if withSentinel {
		modern := slices.DeleteFunc(slices.Clone(programs),
			func(p redistest.Program) bool { return strings.HasPrefix(p.Version, "6.") })
		if len(modern) > 0 {
			p := modern[rng.IntN(len(modern))]
			do("sentinel-"+p.Name, func(t testing.TB) *target { return startSentinel(t, p) })
		}
	}
	t.Logf("proof: chaos: seed %d: %s", seed, &total)
	enough(t, &total, duration)
}

// parameters are the seed and how long it may take.
func parameters(t *testing.T) (seed uint64, duration time.Duration) {
	seed, duration = rand.Uint64()>>32, time.Minute
	if testing.Short() {
		duration = 5 * time.Second
	}
	var err error
	if text := os.Getenv(seedEnv); text != "" {
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, seedEnv)
	}
	if text := os.Getenv(durationEnv); text != "" {
		duration, err = time.ParseDuration(text)
		require.NoError(t, err, durationEnv)
	}
	return seed, duration
}

// calmAfterStorm plans a slice. Every other one has leases that are much longer than a wake-up may
// take, so that who is not woken is noticed, and not saved by the end of a lease.
func calmAfterStorm(seed uint64, i int, d time.Duration, t *target) plan {
	p := plan{
		seed: seed, fair: seed%2 == 0, lease: time.Second, processes: 3, actors: 4, gap: 300 * time.Millisecond,
		names: 3, period: 3 * time.Second, recovery: 2500 * time.Millisecond, shape: drawShape,
		local: localKinds(), global: serverKinds(t),
	}
	p.calm = min(d*2/5, 4*time.Second)
	if i%2 == 1 && d > 12*time.Second {
		p.lease, p.calm = 8*time.Second, 7*time.Second
		p.local = without(p.local, "pause-beyond-lease", "kill-paused") // would take up the whole storm
		p.global = without(p.global, "no-scripts", "no-publish")        // nothing but the lease helps against these
	}
	if p.storm = d - p.calm; !p.fair {
		p.keeping = 1 + int(seed/2%2) //nolint:gosec // small
	}
	return p
}

func without(list []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(some, s) })
}

// enough fails the test if too little happened for the absence of violations to mean anything.
func enough(t *testing.T, f *figures, d time.Duration) {
	t.Helper()
	require.Positive(t, f.grants)
	require.Positive(t, f.reentries)
	if d < time.Minute {
		return
	}
	require.Greater(t, f.grants, 1000)
	require.Greater(t, f.reentries, 100)
	if f.handed > 100 { // else by chance few of the locks were plain ones
		require.Positive(t, f.kept)
	}
	require.Positive(t, f.losses)
	require.Positive(t, f.crashes)
	require.Positive(t, f.panics)
	for _, kind := range localKinds() {
		require.Positive(t, f.kinds[kind], "no fault of the kind %s", kind)
	}
	for kind := range global {
		if kind != "clock" || haveCompiler() {
			require.Positive(t, f.kinds[kind], "no fault of the kind %s", kind)
		}
	}
}
