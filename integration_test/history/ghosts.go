package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Sample is which owner the server named as the holder of a lock at a moment.
type Sample struct {
	At    int64
	Name  string
	Owner string
}

// Ghosts finds locks that stood for nobody: the server named an owner that was neither inside a
// call, nor held the lock, nor had done so just before. What is left of a call that failed is given
// back in the background, which takes Undo, or, after a fault, as long as all that recovers. Of a
// client that was killed, or closed while it could not give back anything, leases stand to their
// end.
func Ghosts(ops []Op, c Config) (found []Violation) {
	names := byName(ops)
	clients := make(map[string]int) // by the UUIDs that their owners begin with
	for _, o := range ops {
		if o.Owner != "" && o.Kind != Queue {
			clients[uuid(o.Owner)] = o.Client
		}
	}
	if c.Undo == 0 {
		return nil
	}
	known := make(map[Sample]bool) // without their times: one violation for each owner
	for _, s := range c.Samples {
		client, acts := clients[uuid(s.Owner)]
		which := Sample{Name: s.Name, Owner: s.Owner}
		// nothing is known of one who was never granted a lock
		if !acts || known[which] || c.explained(names[s.Name], s, client) {
			continue
		}
		known[which] = true
		own := slices.DeleteFunc(slices.Clone(names[s.Name]), func(o Op) bool { return o.Client != client })
		found = append(found, Violation{"ghost", s.Name,
			fmt.Sprintf("at %s it is held by %s, for nobody", time.Duration(s.At), s.Owner), own, nil})
	}
	return found
}

func uuid(owner string) string {
	id, _, _ := strings.Cut(owner, ":")
	return id
}

// explained reports whether a client had a reason to be named. ops are those of the name.
func (c *Config) explained(ops []Op, s Sample, client int) bool {
	faults := sorted(c.Faults, c.Local[client])
	covers := func(from, to int64) bool { return from <= s.At && s.At <= c.settled(faults, to) }
	for _, o := range ops {
		if o.Client != client {
			continue
		}
		if o.Kind == Crash && s.At >= o.Call {
			return s.At <= after(o.Return, 2*c.Lease+c.Late) // and what it sent last may have lengthened it
		}
		mine := o.Owner == s.Owner || o.Asked == s.Owner || (o.Kind == Lock || o.Kind == Try) && o.Owner == "" &&
			o.Asked == ""
		if mine && covers(o.Call, o.Return) {
			return true
		}
	}
	for _, w := range c.Closed[client] {
		if s.At >= w.From && s.At <= after(w.From, 2*c.Lease+c.Late+c.Recovery) {
			return true
		}
	}
	return slices.ContainsFunc(tenures(ops, 0), func(t tenure) bool {
		return t.op.Client == client && t.op.Owner == s.Owner && covers(t.op.Call, t.keptUntil())
	})
}

// settled is when everything has been given back of what ended at a moment. faults are in order.
func (c *Config) settled(faults []Window, at int64) int64 {
	end := after(at, c.Undo)
	for _, f := range faults {
		if over := after(f.To, c.Recovery); f.From <= end && over >= at {
			end = max(end, after(over, c.Undo))
		}
	}
	return end
}

// Kept counts the grants of locks that the client had kept without a holder: those that the server
// did not make, and that were asked for when the holder before had unlocked the lock already.
func Kept(ops []Op) (n int) {
	for _, ops := range byName(ops) {
		all := tenures(ops, 0)
		slices.SortFunc(all, func(a, b tenure) int { return cmp.Compare(a.op.Token, b.op.Token) })
		for i, t := range all {
			if t.op.Handed && i > 0 && all[i-1].op.Owner == t.op.Owner && all[i-1].unlocked && all[i-1].left < t.op.Call {
				n++
			}
		}
	}
	return n
}

// keptUntil is until when the lock may stand, where nothing disturbs its client.
func (t *tenure) keptUntil() int64 {
	if t.op.Keep == 0 || !t.unlocked {
		return t.released
	}
	return max(t.released, after(t.left, time.Duration(t.op.Keep)))
}

// idle is the time for which a lock may have been kept after its holder had unlocked it. Where a
// fault met the client meanwhile, it may have given the lock back late, or only its lease did.
func (c *Config) idle(t tenure) (w Window, felt bool) {
	w = Window{t.released, t.released}
	if t.op.Keep == 0 || !t.unlocked {
		return w, false
	}
	w.From = min(t.left, t.released) // a later crash of the client puts off when all that it had is free
	w.To = after(t.keptUntil(), c.Recovery)
	for _, f := range sorted(c.Faults, c.Local[t.op.Client]) {
		if over := after(f.To, c.Recovery); f.From <= w.To && over >= w.From {
			w.To, felt = max(w.To, after(over, c.Lease)), true
		}
	}
	return w, felt
}
