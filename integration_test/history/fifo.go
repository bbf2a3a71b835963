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
	// It asked once more and had it: permits that it was handed have a new token then. Who does not
	// renew always asks, for the whole lease.
	again bool
}

type actorID struct{ client, actor int }

// waits finds those who asked for places, in the order of their calls. Names whose lock has no
// queue have none.
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

// overtaker is the first grant that overtook a waiter without an excuse. One is enough: the others
// are mostly for the same reason. grants are in the order of their starts.
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

// outOfReach reports whether a waiter may not have been reached at a moment before another was
// granted the lock.
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

// overtaken reports whether another, who came later, was granted the lock first. slack is how long
// it may take to say that one has left.
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

// crowded is when somebody may have had a place: until it was granted the lock, or until its place
// was given back, which who was disturbed, or died, leaves to the end of the place.
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
