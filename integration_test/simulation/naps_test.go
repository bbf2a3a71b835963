package simulation

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// TestNaps runs worlds in which all clients sleep now and then while the server goes on: no hold is
// trusted that may have ended meanwhile. One world at a time, for what notices a sleep belongs to
// the process.
func TestNaps(t *testing.T) {
	var sum totals
	for seeds := range worlds(t, []uint64{2, 4, 7, 8, 11}, upTo(12), []uint64{
		401878089, // an Unlock that called a lost lock released
	}) {
		for _, seed := range seeds {
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
			history.Report(t, r.Problems, replay(t, seed))
		}
	}
	t.Logf("proof: simulation: naps: %s", &sum)
	require.Positive(t, sum.faults[Nap])
}
