package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// wait is a Lock that asked for places in the queue of a fair lock.
type wait struct {
	op     Op    // the Lock
	asked  int64 // the call of the first attempt to get a place
	queued int64 // when it surely had one: the return of the first attempt that was told so; Forever: never
	until  int64 // when it stopped waiting: it returned, or its process died
	// It asked once more and had it, so permits handed to it have a new token. Without renewal it always asks, for the lease.
	again bool
}

type actorID struct{ client, actor int }

// waits finds those who asked for places, in the order of their calls. Names whose lock has no queue have none.
func waits(ops []Op) (list []wait) {
	asked := make(map[actorID][]Op)
	for _, o := range ops {
		if o.Kind == Queue {
			id := actorID{o.Client, o.Actor}
			asked[id] = append(asked[id], o)
		}
	}
	for _, o := range ops {
		if o.Kind != Lock && o.Kind != Reenter {
			continue
		}
		w, owner := wait{op: o, asked: Forever, queued: Forever, until: o.Return, again: o.Plain}, o.Owner
		if o.Of == Elections {
			owner = "" // terms do not tell it
		}
		for _, q := range asked[actorID{o.Client, o.Actor}] {
			if q.Call < o.Call || q.Call > o.Return || owner != "" && q.Owner != owner {
				continue // another of its operations, or somebody who has its owner now
			}
			owner = q.Owner
			w.asked = min(w.asked, q.Call)
			if q.Result == OK {
				w.queued = min(w.queued, q.Return)
			}
			w.again = w.again || q.Result != OK && w.queued != Forever
		}
		if w.asked != Forever {
			list = append(list, w)
		}
	}
	for _, o := range ops {
		for i := range list {
			if o.Kind == Crash && o.Client == list[i].op.Client {
				list[i].until = min(list[i].until, o.Call)
			}
		}
	}
	return list
}

// Fifo finds grants that overtook somebody who had a place in the queue before the one who was
// granted the lock asked for one, or, if that one never had a place, before it called.
//
// Excused is a waiter who may have been out of reach while it waited: its own client was disturbed,
// or all were, or the server lost data. So is one whose client lost the same lock meanwhile: where
// it did not take in time what it had been handed, its other places are passed over until it is
// heard of. Nobody else's faults are an excuse, nor that the waiter left, unless that was before.
func Fifo(ops []Op, c Config) (found []Violation) {
	for name, ops := range byName(ops) {
		all := waits(ops)
		grants := starts(ops, all)
		for _, a := range all {
			if b, ok := c.overtaker(a, grants, ops); ok {
				found = append(found, Violation{"fifo", name, fmt.Sprintf(
					"one that came at %s was granted the lock before one that had had its place since %s:\n  %s\n  %s",
					time.Duration(b.at), time.Duration(a.queued), &b.op, &a.op), ops, nil})
			}
		}
	}
	return found
}

// overtaker is the first grant that overtook a waiter without an excuse; others mostly have its reason. grants are sorted.
func (c *Config) overtaker(a wait, grants []start, ops []Op) (first start, ok bool) {
	if a.queued == Forever {
		return first, false
	}
	from, _ := slices.BinarySearchFunc(grants, a.queued+1, func(g start, at int64) int { return cmp.Compare(g.at, at) })
	for _, b := range grants[from:] {
		if b.at >= a.until {
			break
		}
		if a.overtaken(b.op, c.Slack+c.Leaving) && !c.outOfReach(a, b.op, ops) {
			return b, true
		}
	}
	return first, false
}

// outOfReach reports whether a waiter may not have been reached at a moment before another was granted the lock.
func (c *Config) outOfReach(a wait, by Op, ops []Op) bool {
	between := Op{Call: a.queued, Return: by.Return}
	return disturbed(between, excused(c.Local[a.op.Client], c.Recovery)) ||
		disturbed(between, excused(c.Faults, c.Recovery)) ||
		slices.ContainsFunc(ops, func(o Op) bool {
			lost := o.Kind == End && o.Result == Lost && o.Client == a.op.Client
			fewer := o.Kind == Set && o.Result != Refused && o.Total < a.op.Total // who wants more has no place any more
			return (lost || fewer || o.Kind == Wipe || o.Kind == Foreign) && o.Call <= between.Return && o.Return >= between.Call
		})
}

// start is a grant and the moment from which on its owner may have had a place.
type start struct {
	op Op
	at int64
}

// starts lists the grants of a name in the order of these moments.
func starts(ops []Op, all []wait) (list []start) {
	waited := make(map[grantID]wait)
	for _, w := range all {
		if w.op.granted() && w.queued != Forever {
			waited[w.op.grant()] = w
		}
	}
	for _, o := range ops {
		if !o.granted() {
			continue
		}
		at := o.Call // an attempt without a place was granted, or one with a place found that
		if w, ok := waited[o.grant()]; ok && !inCompany(ops, w) {
			at = w.asked
		}
		list = append(list, start{o, at})
	}
	slices.SortStableFunc(list, func(a, b start) int { return cmp.Compare(a.at, b.at) })
	return list
}

// inCompany reports whether another of the same client waited when one asked for its place first, as
// far as is known. It may have asked earlier then: what several ask together is not recorded.
func inCompany(ops []Op, w wait) bool {
	return slices.ContainsFunc(ops, func(o Op) bool {
		return (o.Kind == Lock || o.Kind == Reenter) && o.Client == w.op.Client && o.Actor != w.op.Actor &&
			o.Call <= w.asked && o.Return >= w.op.Call
	})
}

// overtaken reports whether a later caller was granted the lock first. slack is how late it may be known that a waiter left.
func (w *wait) overtaken(by Op, slack time.Duration) bool {
	switch {
	case by.tokenless():
		return false // it knows no queue
	case w.op.granted() && w.op.Of == Permits && w.again:
		return false // nobody knows when it was handed them
	case w.op.granted():
		return by.Token < w.op.Token
	}
	return by.Return < w.until-int64(slack)
}

// crowded is when somebody may have had a place: until its grant or the place's return; if disturbed or dead, until its end.
func crowded(ops []Op, c Config) (list []Op) {
	for _, w := range waits(ops) {
		o := w.op
		o.Call = w.asked
		troubled := c.troubled(o)
		switch {
		case o.granted() && !troubled:
		case troubled || w.until != w.op.Return:
			o.Return = after(w.until, c.Recovery+c.Place)
		default:
			o.Return = after(o.Return, c.Recovery)
		}
		list = append(list, o)
	}
	return list
}

// WakeUps finds waiters that slept on although the lock was free for longer than the bound. Time in a fault, and for the
// recovery time after it, does not count. A grant that nobody confirmed to be released may stand for a lease.
func WakeUps(ops []Op, c Config) (found []Violation) {
	return c.sleepers(ops, func(ops []Op, _ Op) []Window { return occupied(ops, c) })
}

// sleepers finds those whom [WakeUps] finds, where busy is when a name was not free for one who waited for it.
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

// occupied is when the lock may not have been free, or nobody can be expected to have got it, in order.
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
		// Who left may have been granted the lock in that moment. It is given back in the background.
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

// renewedLate reports whether a killed client's renewal may have come late: its way was disturbed while it held the lock.
func (c *Config) renewedLate(held Op, ops []Op) bool {
	return slices.ContainsFunc(ops, func(o Op) bool {
		held.Return = o.Return
		return o.Kind == Crash && o.Client == held.Client && o.Return >= held.Call && c.troubled(held)
	})
}

// unknown is when others may unknowingly have had the lock: a lost reply came by a repeat, or the first request came late.
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

// died is when the client of an operation without return stopped: perhaps from the first moment on, surely from the second.
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

// wanted is when at all times somebody waited for long enough to be served. Waits with a short gap between them are one time.
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
