// Package level says how far a run of the tests goes, and where its random numbers come from.
//
// There are three levels, and scripts/test.sh chooses one:
//
//   - quick (go test -short): what every change runs first.
//   - all (go test without -short): also what takes long, and all servers and topologies.
//   - soak (HOLDFAST_SOAK=1): exploration. Tests draw new seeds, and those that explore run.
//
// In the first two levels nothing depends on chance: [Seed] and [Rand] give a test the same numbers
// each time. In soak they come from the clock, and a test that fails says how to replay it.
//
// Not promised: that a seed repeats what goroutines and servers did. It repeats what the test drew.
package level

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// SoakEnv names the environment variable that, if it is 1, makes a run a soak. SeedEnv names the one that replays a test: its
// value takes the place of each seed that the test draws. DurationEnv says how long a test that explores does so.
const (
	SoakEnv     = "HOLDFAST_SOAK"
	SeedEnv     = "HOLDFAST_SEED"
	DurationEnv = "HOLDFAST_DURATION"
)

// Soaking reports whether this run explores.
func Soaking() bool { return os.Getenv(SoakEnv) == "1" }

// Exploring reports whether this run does not have the fixed seeds.
func Exploring() bool { return Soaking() || os.Getenv(SeedEnv) != "" }

// Duration is for how long to explore, if the run does not say otherwise.
func Duration(tb testing.TB, usual time.Duration) time.Duration {
	tb.Helper()
	text := os.Getenv(DurationEnv)
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		tb.Fatalf("%s: give a time such as 10m: %v", DurationEnv, err)
	}
	return d
}

// ForAll is called first in a test that needs minutes or several servers. scripts/test.sh counts it apart from skipped ones.
func ForAll(tb testing.TB) {
	tb.Helper()
	if testing.Short() && !Soaking() {
		tb.Skip("level: this is for scripts/test.sh --all")
	}
}

// ForSoak is called first in a test that only explores, by chance or what another shows: it needs a soak, or its seed.
func ForSoak(tb testing.TB) {
	tb.Helper()
	if !Exploring() {
		tb.Skip("level: this is for scripts/test.sh --soak")
	}
}

// Seed is a test's seed: fixed, from its name, or in a soak a new one. A failed test logs the command that replays it.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	seed := fixed(tb.Name())
	if given := os.Getenv(SeedEnv); given != "" {
		n, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			tb.Fatalf("%s=%q is not a number: give the seed that a failed test printed", SeedEnv, given)
		}
		seed = n
	} else if Soaking() {
		seed = uint64(time.Now().UnixNano()) % 1e9 //nolint:gosec // positive
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("replay, in the folder of the test: %s", Replay(tb, seed))
		}
	})
	return seed
}

// Rand draws from [Seed]. Before goroutines start, give each one of its own: rand.New(rand.NewPCG(rnd.Uint64(), 0)).
func Rand(tb testing.TB) *rand.Rand {
	return rand.New(rand.NewPCG(Seed(tb), 0)) //nolint:gosec // for tests
}

// Replay is the command that runs a test with a seed, in the test's folder.
func Replay(tb testing.TB, seed uint64) string {
	name, _, _ := strings.Cut(tb.Name(), "/")
	return fmt.Sprintf("%s=%d go test -race -count=1 -run '^%s$' .", SeedEnv, seed, name)
}

// fixed makes a seed of a name. It is short, since people type it.
func fixed(name string) uint64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return uint64(h.Sum32())
}
