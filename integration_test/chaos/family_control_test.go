//go:build linux

package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// missed is a defence of one of the kinds that have actors of their own, taken out.
type missed struct {
	defence string
	kind    history.Family
	actors  int // of each process
	expect  []string
}

// familyDirections are defences of which each misses one. One plan serves all of them, with the kind in
// question alone.
func familyDirections() []missed {
	return []missed{
		{"more permits", history.Permits, 3, []string{"permits", "linearizability"}},
		{"fewer permits", history.Permits, 3, []string{"lost permits"}},
		{"beside readers", history.ReadWrite, 3, []string{"exclusion", "linearizability"}},
		{"Upgrade", history.ReadWrite, 3, []string{"upgrade"}},
		{"counts twice", history.Latches, 6, []string{"linearizability"}},
		{"named on", history.Elections, 1, []string{"leader"}}, // else the next one leads at once
	}
}

// TestFamilyControls is TestControls for the other kinds.
func TestFamilyControls(t *testing.T) {
	all := familyDirections()
	if testing.Short() {
		all = all[:1]
	}
	seed, _ := parameters(t)
	t.Logf("replay: %s=%d go test ./chaos -run %s", seedEnv, seed, t.Name())
	// Nothing but lost replies: they are what scripts are repeated for, and excuse little.
	p := plan{seed: seed, lease: 5 * time.Second, storm: 1500 * time.Millisecond, calm: 300 * time.Millisecond, processes: 2, actors: 3,
		gap: 200 * time.Millisecond, names: 1, period: 500 * time.Millisecond, recovery: time.Second, tidy: true,
		local: []string{"drop-reply"}, kinds: allKinds()}
	target := startServer(t, redistest.Programs(t)[0])
	whole := p
	whole.storm *= 2 // all kinds are in it
	with, found := whole.run(t, target)
	require.Empty(t, untouched(&with))
	t.Logf("with all defences: %s", &with)
	history.Report(t, found, "none: with all defences there are no violations, or the storm shows nothing")
	table := []string{fmt.Sprintf("proof: chaos of the family: %-20s %s", "defence", "violations without it; with all: "+list(with.violations))}
	for _, d := range all {
		t.Run(d.defence, func(t *testing.T) {
			p := p
			p.kinds, p.actors, p.without = []history.Family{d.kind}, d.actors, []string{d.defence}
			var off figures
			for range 15 { // it is chance, after all
				f, _ := p.run(t, target)
				off.add(f)
				target.nodes[0].Command(t, "FLUSHALL") // what was left behind is not to trouble the next
				if hit(off, d.expect) {
					break
				}
				p.seed++
			}
			table = append(table, fmt.Sprintf("proof:   %-40s %s", d.defence, list(off.violations)))
			require.True(t, hit(off, d.expect), "none of the checks %v noticed that it was missing: %s", d.expect, &off)
		})
	}
	t.Log(strings.Join(table, "\n"))
}
