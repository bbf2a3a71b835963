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

// directed is a storm made for one defence: its faults come often, and others that would excuse
// what is looked for do not.
type directed struct {
	defence string
	expect  []string // the checks of which at least one must find it
	plan    plan
	start   func(tb testing.TB) *target // what the plan needs; nil: what the others have
}

func (d *directed) name() string {
	if d.plan.fair {
		return "fair " + d.defence
	}
	return d.defence
}

func directions() []directed {
	// What is not given back stands for the whole lease, which is long, so it is noticed by those
	// who wait, or at the end.
	long := plan{lease: 10 * time.Second, storm: 3 * time.Second, calm: time.Second, processes: 3, actors: 4,
		gap: 200 * time.Millisecond, names: 3, period: time.Second, recovery: 2500 * time.Millisecond, tidy: true}
	long.local = []string{"drop-reply", "drop-request", "delay-reply", "delay-request"}
	// Who leaves while a request is on its way. The request is given back for a second, if the
	// client is not closed before.
	leaves := long
	leaves.calm = 2500 * time.Millisecond
	leaves.local, leaves.gap, leaves.actors = []string{"delay-request", "delay-reply"}, 50*time.Millisecond, 8
	silent := long
	silent.lease, silent.local = 500*time.Millisecond, []string{"black-hole", "lose-requests", "lose-replies"}
	plain := long
	plain.local = nil
	// Who is not woken would be woken by the next release of the name, if names were not given up
	// so soon.
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
	// Half of the clients are those for clusters, of servers that are none.
	mixed := wakes
	mixed.global, mixed.lease, mixed.processes = nil, 10*time.Second, 4
	mixed.storm, mixed.calm = time.Second, bound+1500*time.Millisecond
	mixed.shape = func(rng *rand.Rand) shape { return shape{Randomly: rng.IntN(2) == 0} }
	fair := func(p plan) plan {
		p.fair = true
		return p
	}
	return []directed{
		{"Poll", []string{"wake-up"}, fair(kills), nil},
		{"Undo", []string{"left behind", "wake-up"}, fair(leaves), nil},
		{"Deadline", []string{"exclusion"}, fair(silent), nil},
		{"Deadline", []string{"exclusion"}, silent, nil},
		{"Undo", []string{"left behind", "wake-up"}, leaves, nil},
		{"Panics", []string{"wake-up", "end"}, frights, nil},
		{"NoRetry", []string{"left behind", "wake-up"}, long, nil},
		{"Resend", []string{"given up"}, long, nil},
		{"RepeatedGone", []string{"trust"}, long, nil},
		{"Detach", []string{"given up"}, plain, nil},
		{"Rewake", []string{"wake-up"}, wakes, nil},
		{"LeaseEnd", []string{"wake-up"}, kills, nil},
		{"FreshOwner", []string{"trust", "linearizability", "exclusion"}, long, nil},
		{"ToldEnds", []string{"end"}, silent, nil},
		{"sharded", []string{"wake-up"}, mixed, anySentinel},
	}
}

// anySentinel is of servers that know SPUBLISH.
func anySentinel(tb testing.TB) *target {
	for _, p := range redistest.Programs(tb) {
		if !strings.HasPrefix(p.Version, "6.") {
			return startSentinel(tb, p)
		}
	}
	tb.Skip("no server here knows SPUBLISH")
	return nil
}

// Not here: defences against what is too rare for some seconds of chance (UndoAgain, PassOn), and
// Bound, without which a client only sends in vain.

// TestControls switches single defences of the library off in the client processes. The storm that
// does no harm with them must do harm without them, and a check must find it.
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
			if d.start == nil {
				d.start = func(tb testing.TB) *target { return startServer(tb, redistest.Programs(tb)[0]) }
			}
			target := d.start(t)
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
			table = append(table, fmt.Sprintf("proof:   %-25s %-20s %s", d.name(), list(with.violations),
				list(off.violations)))
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
