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
	done       map[string]int // handed and kept are of the grants; panics are of hooks, as they came to callers
	others     history.Events // of kinds of their own
	kinds      map[string]int // faults
	violations map[string]int // by check
}

func (f *figures) count(ops []history.Op) {
	f.done["operations"], f.done["kept"] = len(ops), history.Kept(ops)
	f.others = make(history.Events)
	for _, o := range ops {
		f.others.Add(o)
		for what, is := range map[string]bool{
			"handed":     o.Handed,
			"panics":     o.Panic,
			"crashes":    o.Kind == history.Crash,
			"losses":     o.Kind == history.End && o.Result == history.Lost,
			"unknown":    o.Result == history.Unknown,
			"grants":     o.Result == history.OK && (o.Kind == history.Lock || o.Kind == history.Try),
			"re-entries": o.Result == history.OK && o.Kind == history.Reenter,
		} {
			if is {
				f.done[what]++
			}
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
	f.done, f.others = sum(f.done, other.done), sum(f.others, other.others)
	f.kinds, f.violations = sum(f.kinds, other.kinds), sum(f.violations, other.violations)
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
	did := list(f.done)
	if len(f.others) > 0 {
		did = fmt.Sprintf("%s, %d crashes, %d panics", f.others, f.done["crashes"], f.done["panics"])
	}
	return fmt.Sprintf("%.0f s, %d processes: %s; faults: %s; violations: %s", f.seconds, f.done["processes"], did, list(f.kinds), list(f.violations))
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
