package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// WakeUps finds waiters that slept on although the lock was free for longer than the bound. Time in
// a fault, and for the recovery time after it, does not count. A grant that nobody confirmed to be
// released may stand for a lease.
func WakeUps(ops []Op, c Config) (found []Violation) {
	return c.sleepers(ops, func(ops []Op, _ Op) []Window { return occupied(ops, c) })
}

// sleepers finds those whom [WakeUps] finds, where busy is when a name was not free for one who
// waited for it.
func (c Config) sleepers(ops []Op, busy func(ops []Op, o Op) []Window) (found []Violation) {
	type waiter struct {
		shared        bool
		client, actor int
	}
	if c.Bound == 0 {
		return nil
	}
	for name, ops := range byName(ops) {
		known := make(map[bool][]Window) // of the waiters of each side
		all := make(map[waiter][]Window) // and what excuses one of them
		for i := range ops {
			o := &ops[i]
			if o.Kind != Lock {
				continue
			}
			if _, ok := known[o.Shared]; !ok {
				known[o.Shared] = busy(ops, *o)
			}
			who := waiter{o.Shared, o.Client, o.Actor}
			if _, ok := all[who]; !ok {
				all[who] = sorted(known[o.Shared], excused(c.Local[o.Client], c.Recovery), unknown(ops, o.Actor, c), []Window{{Forever, Forever}})
			}
			from := o.Call
			for _, w := range all[who] {
				if from >= o.Return {
					break
				}
				if until := min(w.From, o.Return); o.Return != Forever && until-from > int64(c.Bound) {
					found = append(found, Violation{"wake-up", name,
						fmt.Sprintf("free for %s from %s on while this one waited",
							time.Duration(until-from), time.Duration(from)), append([]Op{*o}, ops...), nil})
					break
				}
				from = max(from, w.To)
			}
		}
	}
	return found
}

// occupied is when the lock may not have been free, or nobody can be expected to have got it, in
// order.
func occupied(ops []Op, c Config) []Window {
	busy := excused(c.Faults, c.Recovery)
	crashes := ofKind(ops, Crash)
	for _, t := range tenures(ops, c.Lease) {
		if t.op.Least > 0 { // who has a place in a queue is not told of the new end, and looks once a second
			t.released = after(t.released, c.Claim)
		}
		if idle, felt := c.idle(t); felt { // else whoever waits calls it back
			t.released = idle.To
		}
		if c.renewedLate(t.op, crashes) {
			t.released = after(t.released, c.Late)
		}
		// it may have been granted earlier, but by little: the answer's way
		busy = append(busy, Window{t.op.Return, t.released})
	}
	for _, o := range ops {
		if o.Kind == Foreign { // who waits for what never ends looks once in a lease
			busy = append(busy, Window{o.Call - int64(c.Recovery), after(o.Return, c.Lease+c.Recovery)})
			continue
		}
		// Who left may have been granted the lock in that moment. It is given back in the
		// background.
		if (o.Kind == Lock || o.Kind == Try || o.Kind == Upgrade && o.Result != Refused) && o.Result != OK && o.Result != Denied {
			stands := c.Recovery
			if c.troubled(o) {
				stands = c.Lease + c.Recovery
			}
			if o.Return == Forever { // its process was killed
				busy = append(busy, Window{o.Call, after(died(o, crashes).To, c.Lease)})
				continue
			}
			last := o // the attempt that it left
			if last.Call = max(o.Call, o.Return-int64(c.Recovery)); !c.troubled(last) {
				last.Call = o.Return // it took no time to speak of
			}
			busy = append(busy, Window{last.Call, after(o.Return, stands)})
		}
	}
	return sorted(busy)
}

// renewedLate reports whether a renewal by a client that was killed may have come late: its way was
// disturbed while it held the lock.
func (c *Config) renewedLate(held Op, ops []Op) bool {
	return slices.ContainsFunc(ops, func(o Op) bool {
		held.Return = o.Return
		return o.Kind == Crash && o.Client == held.Client && o.Return >= held.Call &&
			c.troubled(held)
	})
}

// unknown is when others may have had the lock and not known it: the reply was lost, and came with
// a repeat later; or the first request arrived after all had been over, and had to be undone.
func unknown(ops []Op, actor int, c Config) (list []Window) {
	for i := range ops { // these are long, and copies of them slow under the race detector
		o := &ops[i]
		if !o.granted() || o.Actor == actor {
			continue
		}
		for _, f := range excused(c.Local[o.Client], c.Recovery) {
			if f.From < o.Return && f.To > o.Call {
				list = append(list, Window{max(f.From, o.Call), f.To})
			}
		}
	}
	return list
}

// excused are faults with the time after them in which not everything works again.
func excused(faults []Window, recovery time.Duration) (list []Window) {
	for _, f := range faults {
		list = append(list, Window{f.From, after(f.To, recovery)})
	}
	return list
}

// Union are windows that do not overlap, with the same times in them.
func Union(windows []Window) (list []Window) {
	for _, w := range sorted(windows) {
		if n := len(list); n > 0 && w.From <= list[n-1].To {
			list[n-1].To = max(list[n-1].To, w.To)
		} else {
			list = append(list, w)
		}
	}
	return list
}

// sorted are all windows of some lists, in order.
func sorted(lists ...[]Window) []Window {
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(a, b Window) int { return cmp.Compare(a.From, b.From) })
	return all
}

// died is when the client of an operation that did not return stopped: from when on it perhaps did nothing any more, and from
// when on surely.
func died(o Op, ops []Op) Window {
	for _, c := range ops {
		if c.Kind == Crash && c.Client == o.Client && c.Return >= o.Call {
			return Window{c.Call, c.Return}
		}
	}
	return Window{Forever, Forever}
}

// troubled reports whether a fault of all, or of its client, met an operation.
func (c *Config) troubled(o Op) bool {
	return disturbed(o, c.Faults) || disturbed(o, c.Local[o.Client])
}

func disturbed(o Op, faults []Window) bool { return Overlap(faults, o.Call, o.Return) }

// Overlap reports whether one of the windows and a time have a moment in common.
func Overlap(windows []Window, from, to int64) bool {
	return slices.ContainsFunc(windows, func(w Window) bool { return w.From <= to && from <= w.To })
}

func after(at int64, d time.Duration) int64 {
	if at > Forever-int64(d) {
		return Forever
	}
	return at + int64(d)
}

// Progress finds locks that were free for longer than the window, and wanted all the time by callers who waited
// for long enough to be served, none of whom was granted it. It differs from [WakeUps] in what it does not excuse: that
// others left. What they asked for, and what is given back for them, is to cost the others next to nothing.
//
// Nobody need be granted a lock in a fault of anybody, and in the recovery time after it.
func Progress(ops []Op, c Config) (found []Violation) {
	if c.Window == 0 {
		return nil
	}
	for name, ops := range byName(ops) {
		busy := excused(c.Faults, c.Recovery)
		for _, faults := range c.Local {
			busy = append(busy, excused(faults, c.Recovery)...)
		}
		for _, t := range tenures(ops, c.Lease) {
			busy = append(busy, Window{t.op.Return, t.released})
		}
		busy = Union(append(busy, Window{Forever, Forever}))
		for _, wanted := range c.wanted(ops) {
			from := wanted.From
			for _, w := range busy {
				if until := min(w.From, wanted.To); until-from > int64(c.Window) {
					found = append(found, Violation{"progress", name, fmt.Sprintf("free and wanted from %s to %s, and granted to nobody",
						time.Duration(from), time.Duration(until)), within(ops, from, until), nil})
				}
				from = max(from, w.To)
			}
		}
	}
	return found
}

// wanted is when there was somebody all the time who waited for long enough to be served. Those of whom one comes
// soon after the other has left are one time.
func (c *Config) wanted(ops []Op) (list []Window) {
	for i := range ops {
		o := &ops[i]
		if o.Kind == Lock && o.Return != Forever && o.Return-o.Call >= int64(c.Serving) && (o.Total == 0 || o.Total <= c.Permits) {
			list = append(list, Window{o.Call, o.Return + int64(c.Serving)/4})
		}
	}
	return Union(list)
}

// within are the operations of a time.
func within(ops []Op, from, until int64) []Op {
	return slices.DeleteFunc(slices.Clone(ops), func(o Op) bool { return o.Return < from || o.Call > until })
}
