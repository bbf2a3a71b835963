package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// WakeUps finds waiters that slept on although the lock was free for longer than bound. Time in a window, and for the
// recovery time after it, does not count. lease is how long a grant may stand that nobody confirmed to be released.
func WakeUps(ops []Op, lease, bound, recovery time.Duration, faults []Window) (found []Violation) {
	for name, ops := range byName(ops) {
		busy := occupied(ops, lease, recovery, faults)
		for _, o := range ops {
			if o.Kind != Lock {
				continue
			}
			from := o.Call
			for _, w := range append(busy[:len(busy):len(busy)], Window{o.Return, Forever}) {
				if until := min(w.From, o.Return); o.Return != Forever && until-from > int64(bound) {
					found = append(found, Violation{"wake-up", name, fmt.Sprintf("free for %s from %s on while this one waited",
						time.Duration(until-from), time.Duration(from)), append([]Op{o}, ops...), nil})
					break
				}
				from = max(from, w.To)
			}
		}
	}
	return found
}

// occupied is when the lock may not have been free, or nobody can be expected to have got it, in order.
func occupied(ops []Op, lease, recovery time.Duration, faults []Window) []Window {
	var busy []Window
	for _, f := range faults {
		busy = append(busy, Window{f.From, after(f.To, recovery)})
	}
	for _, t := range tenures(ops, lease) {
		busy = append(busy, Window{t.op.Return, t.released}) // it may have been granted earlier, but by little: the answer's way
	}
	for _, o := range ops {
		// Who left may have been granted the lock in that moment. It is given back in the background.
		if (o.Kind == Lock || o.Kind == Try) && o.Result != OK && o.Result != Denied {
			stands := recovery
			if disturbed(o, faults) {
				stands = lease + recovery
			}
			if o.Return == Forever { // its process was killed
				busy = append(busy, crashOf(o, ops, lease))
				continue
			}
			busy = append(busy, Window{o.Return - int64(recovery), after(o.Return, stands)})
		}
	}
	slices.SortFunc(busy, func(a, b Window) int { return cmp.Compare(a.From, b.From) })
	return busy
}

func crashOf(o Op, ops []Op, lease time.Duration) Window {
	for _, c := range ops {
		if c.Kind == Crash && c.Client == o.Client && c.Call >= o.Call {
			return Window{o.Call, after(c.Call, lease)}
		}
	}
	return Window{o.Call, Forever}
}

func disturbed(o Op, faults []Window) bool {
	return slices.ContainsFunc(faults, func(f Window) bool { return f.From <= o.Return && f.To >= o.Call })
}

func after(at int64, d time.Duration) int64 {
	if at > Forever-int64(d) {
		return Forever
	}
	return at + int64(d)
}
