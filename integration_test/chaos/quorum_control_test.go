//go:build linux

package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// quorumDirections are storms for the defences of quorum locks, of which each misses one.
func quorumDirections() []directed {
	// Votes of a minority that are not given back stand for the whole lease, and many ask at once.
	withdraw := plan{lease: 10 * time.Second, storm: 2 * time.Second, calm: 500 * time.Millisecond, processes: 4, actors: 2, alone: true,
		names: 2, period: time.Second, recovery: 2500 * time.Millisecond, tidy: true}
	// The master that both halves reach loses its data while one of them holds the lock, and then the other half asks. In the
	// first lease after that there is nobody who can have it.
	restarts := plan{lease: time.Second, storm: 5 * time.Second, calm: 500 * time.Millisecond, processes: 4, actors: 2, alone: true,
		names: 1, period: time.Minute, hold: 150 * time.Millisecond, recovery: 4 * time.Second, parted: true,
		gap: 100 * time.Millisecond, global: []string{"restart-middle"}}
	return []directed{
		{"Withdraw", []string{"left behind", "wake-up"}, withdraw},
		{"Restarts", []string{"exclusion"}, restarts},
	}
}

// TestQuorumControls is TestControls for quorum locks.
func TestQuorumControls(t *testing.T) {
	all := quorumDirections()
	if testing.Short() {
		all = slices.DeleteFunc(all, func(d directed) bool { return d.defence == "Restarts" })
	}
	seed, _ := parameters(t)
	t.Logf("replay: %s=%d go test ./chaos -run %s", seedEnv, seed, t.Name())
	target := startMasters(t, redistest.Programs(t)[0])
	table := []string{fmt.Sprintf("proof: chaos of quorums: %-10s %-20s %s", "defence", "violations with it", "without it")}
	for _, d := range all {
		t.Run(d.defence, func(t *testing.T) {
			p := d.plan
			p.seed = seed
			with, found := p.run(t, target)
			history.Report(t, found, "none: with all defences there are no violations, or the storm shows nothing")
			p.without = []string{d.defence}
			var off figures
			for range 15 { // it is chance, after all
				f, _ := p.run(t, target)
				off.add(f)
				for _, n := range target.nodes {
					n.Command(t, "FLUSHALL") // what was left behind is not to trouble the next
				}
				if hit(off, d.expect) {
					break
				}
				p.seed++
			}
			table = append(table, fmt.Sprintf("proof:   %-30s %-20s %s", d.defence, list(with.violations), list(off.violations)))
			t.Logf("with: %s; without: %s", &with, &off)
			require.True(t, hit(off, d.expect), "none of the checks %v noticed that it was missing: %s", d.expect, &off)
		})
	}
	t.Log(strings.Join(table, "\n"))
}
