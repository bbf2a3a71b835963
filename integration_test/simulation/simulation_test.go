package simulation

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// run runs a world in a bubble of its own.
func run(t *testing.T, w *World) (r Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { r = w.Run() })
	return r
}

func number(t *testing.T, env string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", env, err)
	}
	return n
}

func TestSimulation(t *testing.T) {
	first := number(t, "HOLDFAST_SEED", uint64(time.Now().UnixNano()%1e6)) //nolint:gosec // positive
	seeds := number(t, "HOLDFAST_SEEDS", 10)
	for seed := first; seed < first+seeds; seed++ {
		start := time.Now()
		s := Draw(seed)
		r := run(t, &World{Settings: s})
		t.Logf("%d lease %v: %v in %v, %d ops, %v faults, %d clients", seed, s.Lease, r.Length, time.Since(start), len(r.Ops), r.Faults, r.Clients)
		history.Report(t, r.Problems, "HOLDFAST_SEEDS=1 HOLDFAST_SEED="+strconv.FormatUint(seed, 10)+" go test -run TestSimulation ./simulation")
	}
}
