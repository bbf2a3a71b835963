package simulation

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
)

// patience is within how many seeds the lack of a defence has to show.
const patience = 200

// TestControls switches off defences, one after the other, until a run shows it. A simulation that
// does not see what is missing would prove nothing by seeing no violations. No other test runs
// meanwhile: switches are global.
func TestControls(t *testing.T) {
	defence.Need(t)
	var table strings.Builder
	defences := telling()
	left := 0 // for which there was no time
	for i := range defences {
		d := &defences[i]
		s := search{lack: d}
		if d.off != nil {
			restore := d.off.Without(t)
			defer restore()
			s.run(t)
			restore()
		} else {
			s.run(t)
		}
		if len(s.found) == 0 && s.seed < patience && !t.Failed() {
			left++
			continue
		}
		fmt.Fprintf(&table, "\nproof:   %-45s %4d  %s", d.name, s.seed, strings.Join(s.found, ", "))
		assert.NotEmpty(t, s.found, "%s: no violation within %d seeds", d.name, patience)
	}
	t.Logf("proof: simulation: without the defence       missed by seed, by the check%s", table.String())
	if left > 0 && !t.Failed() {
		t.Skipf("%d of %d defences are missed, for the others there was no time: raise -timeout, or leave the machine to the test",
			len(defences)-left, len(defences))
	}
}

// seen is a check of worlds of a kind.
type seen struct {
	of    history.Family
	check string
}

// telling are two defences for each check of each kind, the lack of which it can find, or one in a short run.
// What is left out says the same of another defence: that each of them is one is shown in package
// controls, and beside the code. Here it is the checks that are tested.
func telling() (some []lack) {
	all, each := slices.Concat(plainDefences, fairDefences, kindDefences), 2
	if testing.Short() {
		each = 1
	}
	found := make(map[seen]int)
	slices.SortStableFunc(all, func(a, b lack) int {
		switch {
		case a.sole == b.sole:
			return len(a.checks) - len(b.checks)
		case a.sole: // it runs in any case, and may spare others
			return -1
		}
		return 1
	})
	for _, d := range all {
		if !d.sole && !slices.ContainsFunc(d.checks, func(check string) bool { return found[seen{d.kind, check}] < each }) {
			continue
		}
		some = append(some, d)
		for _, check := range d.checks {
			found[seen{d.kind, check}]++
		}
	}
	return some
}

// search is for a seed that shows that a defence is off.
type search struct {
	*lack

	mu    sync.Mutex // guards the rest
	seed  int        // the last one
	found []string
}

func (s *search) run(t *testing.T) {
	t.Helper()
	t.Run(s.name, func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			if worker > 0 && s.alone {
				break
			}
			t.Run(strconv.Itoa(worker), func(t *testing.T) {
				t.Parallel()
				for seed := s.next(t); seed > 0; seed = s.next(t) {
					s.judge(run(t, s.world(seed)))
				}
			})
		}
	})
}

// next is the seed to try next, 0 if there is none.
func (s *search) next(t *testing.T) int {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.found) > 0 || s.seed == patience || !room(t, controlsUntil) {
		return 0
	}
	s.seed++
	return s.seed
}

func (s *search) world(seed int) *World {
	w := &World{Settings: drawOf(uint64(seed), s.kind)} //nolint:gosec // positive
	w.Fair = s.fair
	if w.Fair {
		w.Keeping = 0 // a fair lock cannot be kept
	}
	if s.bias != nil {
		s.bias(&w.Settings)
	}
	if s.mutant != nil {
		w.Hooks = s.mutant()
	}
	return w
}

func (s *search) judge(r Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range r.Problems {
		if slices.Contains(s.checks, p.Check) && !slices.Contains(s.found, p.Check) {
			s.found = append(s.found, p.Check)
		}
	}
}

// TestControlsHaveCause runs the worlds of [TestControls] with all defences on: what is found there
// is not found here.
func TestControlsHaveCause(t *testing.T) {
	seeds := 2
	if testing.Short() {
		seeds = 1
	}
	for _, d := range telling() {
		if d.bias == nil || d.alone {
			continue // TestSimulation runs those, and TestNaps
		}
		s := search{lack: &lack{bias: d.bias, kind: d.kind, fair: d.fair}}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			for seed := 1; seed <= seeds && room(t, causesUntil); seed++ {
				history.Report(t, run(t, s.world(seed)).Problems, d.name)
			}
		})
	}
}
