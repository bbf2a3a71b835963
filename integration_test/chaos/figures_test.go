//go:build linux

package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// figures are what happened in a run, or in several.
type figures struct {
	seconds    float64
	processes  int
	ops        int
	grants     int
	handed     int // of these the server did not make
	kept       int // of these, of locks that nobody held then
	reentries  int
	losses     int
	crashes    int
	panics     int            // of hooks, as they came to callers
	unknown    int            // operations without a known outcome
	others     history.Events // of kinds of their own
	kinds      map[string]int // faults
	violations map[string]int // by check
}

func (f *figures) count(ops []history.Op) {
	f.ops = len(ops)
	f.kept = history.Kept(ops)
	f.others = make(history.Events)
	for _, o := range ops {
		f.others.Add(o)
		if o.Handed {
			f.handed++
		}
		if o.Panic {
			f.panics++
		}
		switch {
		case o.Kind == history.Crash:
			f.crashes++
		case o.Kind == history.End && o.Result == history.Lost:
			f.losses++
		case o.Result == history.Unknown:
			f.unknown++
		case o.Result != history.OK:
		case o.Kind == history.Lock, o.Kind == history.Try:
			f.grants++
		case o.Kind == history.Reenter:
			f.reentries++
		}
	}
}

func (f *figures) found(list []history.Violation) {
	f.violations = make(map[string]int)
	for _, v := range list {
		f.violations[v.Check]++
	}
}

// add joins the figures of another run.
func (f *figures) add(other figures) {
	f.seconds += other.seconds
	f.processes += other.processes
	f.ops += other.ops
	f.grants += other.grants
	f.handed += other.handed
	f.kept += other.kept
	f.reentries += other.reentries
	f.losses += other.losses
	f.crashes += other.crashes
	f.unknown += other.unknown
	f.panics += other.panics
	f.kinds, f.violations = sum(f.kinds, other.kinds), sum(f.violations, other.violations)
	f.others = sum(f.others, other.others)
}

func sum[K comparable, M ~map[K]int](a, b M) M {
	all := make(M)
	for _, m := range []M{a, b} {
		for k, n := range m {
			all[k] += n
		}
	}
	return all
}

func (f *figures) String() string {
	if len(f.others) > 0 {
		return fmt.Sprintf("%.0f s, %d processes, %s, %d crashes, %d panics of hooks; faults: %s; violations: %s", f.seconds, f.processes,
			f.others, f.crashes, f.panics, list(f.kinds), list(f.violations))
	}
	return fmt.Sprintf("%.0f s, %d processes, %d operations, %d grants, %d of them handed on (%d of kept locks), %d re-entries, %d losses, %d crashes, %d panics of hooks, %d unknown; faults: %s; violations: %s",
		f.seconds, f.processes, f.ops, f.grants, f.handed, f.kept, f.reentries, f.losses, f.crashes, f.panics, f.unknown,
		list(f.kinds), list(f.violations))
}

func list(counts map[string]int) string {
	if len(counts) == 0 {
		return "none"
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, counts[k]))
	}
	return strings.Join(parts, ", ")
}
