package simulation

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

const (
	seedEnv  = "HOLDFAST_SEED"  // the first seed; without hours, the only one
	hoursEnv = "HOLDFAST_HOURS" // for how many simulated hours
)

// hours is how long a run of all tests simulates, or longer: until everything has happened. HOLDFAST_HOURS asks
// for more.
const hours = 50

// begun is when the tests of this package were.
var begun = time.Now()

// room reports whether there is time for more: whether less than this part of what "go test" gives
// the package (-timeout) is over. Worlds take as long as the machine does; on a busy one fewer are
// run, and the run says how many.
func room(t *testing.T, part float64) bool {
	t.Helper()
	end, limited := t.Deadline()
	return !limited || time.Since(begun).Seconds() < part*end.Sub(begun).Seconds()
}

// The parts of the time after which nothing new is begun. What is under way then has the rest.
const (
	controlsUntil = 0.5
	causesUntil   = 0.6
	worldsUntil   = 0.85
)

// TestSimulation runs one world after the other, each drawn from a seed, the first of which is
// random. It goes on until there were as many hours as it is to have, and everything has happened.
func TestSimulation(t *testing.T) {
	first, replay := number(t, seedEnv, uint64(time.Now().UnixNano()%1e9)) //nolint:gosec // positive
	total, set := number(t, hoursEnv, hours)
	if testing.Short() && !set {
		total = hours / 10
	}
	only := replay && !set
	t.Logf("proof: simulation: first seed %d", first)
	var sum totals
	var next atomic.Uint64
	next.Store(first)
	t.Run("worlds", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			if only && worker > 0 {
				break
			}
			t.Run(strconv.Itoa(worker), func(t *testing.T) {
				t.Parallel()
				for more := only || room(t, worldsUntil); more && !t.Failed(); more = !only &&
					sum.wants(float64(total)) && room(t, worldsUntil) {
					seed := next.Add(1) - 1
					r := run(t, &World{Settings: Draw(seed)})
					sum.add(r)
					history.Report(t, r.Problems, fmt.Sprintf("%s=%d go test -race -run TestSimulation ./simulation",
						seedEnv, seed))
				}
			})
		}
	})
	t.Logf("proof: simulation: %s", &sum)
	switch {
	case only || t.Failed():
	case sum.wants(float64(total)):
		t.Skipf("no violation in %.0f of %d simulated hours, for more there was no time (missing: %q): raise -timeout, or "+
			"leave the machine to the test", sum.hours(), total, sum.missing())
	default:
		require.Empty(t, sum.missing(), "has not happened, and should have by now")
	}
}

// run runs a world in a bubble of its own.
func run(t *testing.T, w *World) (r Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { r = w.Run() })
	return r
}

// number is that of a variable of the environment, if it is set.
func number(t *testing.T, env string, otherwise uint64) (n uint64, set bool) {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return otherwise, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", env, err)
	}
	return n, true
}
