//go:build linux

package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// directed is a storm made for one defence: its faults come often, and others that would excuse what is looked for do not.
type directed struct {
	defence string
	expect  []string // the checks of which at least one must find it
	plan    plan
}

func (d *directed) name() string {
	if d.plan.fair {
		return "fair " + d.defence
	}
	return d.defence
}

func directions() []directed {
	// What is not given back stands for the whole lease, which is long, so it is noticed by those who wait, or at the end.
	long := plan{lease: 10 * time.Second, storm: 3 * time.Second, calm: time.Second, processes: 3, actors: 4,
		gap: 200 * time.Millisecond, names: 3, period: time.Second, recovery: 2500 * time.Millisecond, tidy: true}
	long.local = []string{"drop-reply", "drop-request", "delay-reply", "delay-request"}
	// Who leaves while a request is on its way. The request is given back for a second, if the client is not closed before.
	leaves := long
	leaves.calm = 2500 * time.Millisecond
	leaves.local, leaves.gap, leaves.actors = []string{"delay-request", "delay-reply"}, 50*time.Millisecond, 8
	silent := long
	silent.lease, silent.local = 500*time.Millisecond, []string{"black-hole", "lose-requests", "lose-replies"}
	plain := long
	plain.local = nil
	// Who is not woken would be woken by the next release of the name, if names were not given up so soon.
	wakes := long
	wakes.local, wakes.global = nil, []string{"kill-pubsub"}
	wakes.names, wakes.period, wakes.recovery = 6, 200*time.Millisecond, time.Second
	wakes.calm = 2*wakes.recovery + bound + 1500*time.Millisecond // after the storm, and before they are stopped
	kills := wakes
	kills.lease, kills.gap, kills.tidy = time.Second, 800*time.Millisecond, false
	kills.local, kills.global = []string{"kill"}, nil
	frights := long
	frights.local, frights.lease, frights.calm = nil, 30*time.Second, bound+2*time.Second
	frights.shape = func(*rand.Rand) shape { return shape{Panics: 0.02} }
	fair := func(p plan) plan {
		p.fair = true
		return p
	}
	return []directed{
		{"Poll", []string{"wake-up"}, fair(kills)},
		{"Undo", []string{"left behind", "wake-up"}, fair(leaves)},
		{"Deadline", []string{"exclusion"}, fair(silent)},
		{"Deadline", []string{"exclusion"}, silent},
		{"Undo", []string{"left behind", "wake-up"}, leaves},
		{"Panics", []string{"wake-up", "end"}, frights},
		{"NoRetry", []string{"left behind", "wake-up"}, long},
		{"Resend", []string{"given up"}, long},
		{"RepeatedGone", []string{"trust"}, long},
		{"Detach", []string{"given up"}, plain},
		{"Rewake", []string{"wake-up"}, wakes},
		{"LeaseEnd", []string{"wake-up"}, kills},
		{"FreshOwner", []string{"trust", "linearizability", "exclusion"}, long},
	}
}

// Not here: defences against what is too rare for some seconds of chance (UndoAgain, PassOn), and Bound, without which a
// client only sends in vain.

// TestControls switches single defences of the library off in the client processes. The storm that does no harm with them
// must do harm without them, and a check must find it.
func TestControls(t *testing.T) {
	all := directions()
	if testing.Short() { // two that show at once
		all = slices.DeleteFunc(all, func(d directed) bool { return d.defence != "Deadline" && d.defence != "Detach" })
	}
	seed, _ := parameters(t)
	t.Logf("replay: %s=%d go test ./chaos -run %s", seedEnv, seed, t.Name())
	table := []string{fmt.Sprintf("proof: chaos: %-20s %-20s %s", "defence", "violations with it", "without it")}
	for _, d := range all {
		t.Run(d.name(), func(t *testing.T) {
			target := startServer(t, redistest.Programs(t)[0])
			p := d.plan
			p.seed = seed
			with, found := p.run(t, target)
			history.Report(t, found, "none: with all defences there are no violations, or the storm shows nothing")
			p.without = []string{d.defence}
			var off figures
			for range 15 { // it is chance, after all
				f, _ := p.run(t, target)
				off.add(f)
				if hit(off, d.expect) {
					break
				}
				p.seed++
			}
			table = append(table, fmt.Sprintf("proof:   %-25s %-20s %s", d.name(), list(with.violations), list(off.violations)))
			require.True(t, hit(off, d.expect), "none of the checks %v noticed that it was missing: %s", d.expect, &off)
		})
	}
	t.Log(strings.Join(table, "\n"))
}

func hit(f figures, checks []string) bool {
	for _, c := range checks {
		if f.violations[c] > 0 {
			return true
		}
	}
	return false
}
