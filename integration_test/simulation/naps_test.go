package simulation

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// TestNaps runs worlds in which all clients sleep now and then while the server goes on: no hold is
// trusted that may have ended meanwhile. One world at a time, for what notices a sleep belongs to
// the process.
func TestNaps(t *testing.T) {
	first, replay := number(t, seedEnv, uint64(begun.UnixNano()%1e9)) //nolint:gosec // positive
	t.Logf("proof: simulation: naps: first seed %d", first)
	worlds := 20
	if testing.Short() {
		worlds = 8
	}
	if replay {
		worlds = 1
	}
	var sum totals
	for seed := first; seed < first+uint64(worlds) && !t.Failed(); seed++ { //nolint:gosec // positive
		if !room(t, causesUntil) {
			t.Skipf("no violation in %d of %d worlds, for more there was no time: raise -timeout, or leave the machine to the test", sum.seeds, worlds)
		}
		s := Draw(seed)
		if s.Kind == history.Elections { // Run does not say until when a term is trusted, so its end is known late
			s = drawOf(seed, history.Locks)
		}
		s.Naps = newSource(seed, 'n').between(s.Lease/2, 4*s.Lease)
		if seed%4 == 0 {
			s.Fair, s.Keeping = false, 1
			s.atHome(2)
		}
		s.Staying, s.Strangers = 0, 0 // how long a thing stays is by the server's clock
		r := run(t, &World{Settings: s})
		sum.add(r)
		history.Report(t, r.Problems, fmt.Sprintf("%s=%d go test -race -run TestNaps ./simulation", seedEnv, seed))
	}
	t.Logf("proof: simulation: naps: %s", &sum)
	require.Positive(t, sum.faults[Nap])
}
