package history

import (
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
