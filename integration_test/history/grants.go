package history

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// tenure is one grant from its first moment to its last.
type tenure struct {
	op       Op    // the Lock or Try
	until    int64 // the end of the trust that the holder could have in it: it must not overlap another's
	released int64 // when the server had surely given it up, as far as the history tells

	longest  int64 // lease that was asked for
	unlocked bool  // and that was confirmed
	left     int64 // when, if it was
}

// byName sorts the operations under their names. What concerns all names (a crash, a wipe) is under each.
func byName(ops []Op) map[string][]Op {
	names := make(map[string][]Op)
	var all []Op
	for _, o := range ops {
		if o.Name == "" {
			all = append(all, o)
			continue
		}
		names[o.Name] = append(names[o.Name], o)
	}
	for name := range names {
		names[name] = append(names[name], all...)
		slices.SortStableFunc(names[name], func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	}
	return names
}

// ofKind are the operations of one kind, in the same order.
func ofKind(ops []Op, k Kind) (list []Op) {
	for i := range ops {
		if ops[i].Kind == k {
			list = append(list, ops[i])
		}
	}
	return list
}

// tenures finds the grants of one name. A grant whose end nobody confirmed may stand for a lease more.
func tenures(ops []Op, lease time.Duration) []tenure {
	var list []tenure
	index := make(map[grantID]int)
	for _, o := range ops {
		if o.granted() {
			index[o.grant()] = len(list)
			list = append(list, tenure{op: o, until: Forever, released: Forever, longest: o.Lease})
		}
	}
	for _, o := range ops {
		if o.Kind == Crash {
			for i := range list {
				if t := &list[i]; t.op.Client == o.Client {
					t.end(o.Call, lease)
					t.released = max(t.released, after(o.Return, lease)) // what it did last may be as late as that
				}
			}
			continue
		}
		i, ok := index[o.grant()]
		if !ok {
			continue
		}
		t := &list[i]
		switch {
		case o.Kind == Reenter, o.Kind == Extend:
			t.longest = max(t.longest, o.Lease)
		case o.Kind == End:
			t.end(o.Call, lease)
			t.until = min(t.until, o.trusted())
		case o.Kind == Unlock && o.Last:
			t.unlocked = t.unlocked || o.Result == OK
			t.end(o.Call, lease)
			t.until = min(t.until, o.trusted())
			if o.Result == OK {
				t.left = o.Return
				t.released = min(t.released, max(o.Return, t.stays(o.Return)))
			}
		}
	}
	slices.SortStableFunc(list, func(a, b tenure) int { return cmp.Compare(a.op.Return, b.op.Return) })
	return list
}

// end notes that the holder has stopped trusting the grant at a moment.
func (t *tenure) end(at int64, lease time.Duration) {
	t.until = min(t.until, at)
	t.released = min(t.released, max(at+int64(lease), t.stays(at)))
}

// holders are who has something, and how many of it each, as text: states of models are compared.
type holders string

// id is what a grant is called among holders.
func (o *Op) id() string { return fmt.Sprintf("%s#%d#%d", o.Owner, o.Token, o.Grant) }

func (h holders) find(id string) (at, end, count int) {
	at = strings.Index(string(h), " "+id+"=")
	if at < 0 {
		return -1, 0, 0
	}
	from := at + len(id) + 2
	end = from + strings.IndexByte(string(h[from:]), ';') + 1
	count, _ = strconv.Atoi(string(h[from : end-1]))
	return at, end, count
}

func (h holders) count(id string) int {
	_, _, n := h.find(id)
	return n
}

// with are the same, of whom one has so many; none if that is 0.
func (h holders) with(id string, count int) holders {
	if at, end, _ := h.find(id); at >= 0 {
		h = h[:at] + h[end:]
	}
	switch {
	case count == 0:
		return h
	case h == "":
		return holders(" " + id + "=" + strconv.Itoa(count) + ";")
	}
	all := append(strings.SplitAfter(string(h), ";"), fmt.Sprintf(" %s=%d;", id, count))
	sort.Strings(all)
	return holders(strings.Join(all, ""))
}

// owned is how many an owner has, in all of its grants.
func (h holders) owned(owner string) (n int) {
	h.each(func(id string, count int) {
		if strings.HasPrefix(id, owner+"#") {
			n += count
		}
	})
	return n
}

// sum is how many all have.
func (h holders) sum() (n int) {
	h.each(func(_ string, count int) { n += count })
	return n
}

func (h holders) each(do func(id string, count int)) {
	for _, one := range strings.Split(string(h), ";") {
		if id, count, ok := strings.Cut(strings.TrimSpace(one), "="); ok {
			n, _ := strconv.Atoi(count)
			do(id, n)
		}
	}
}

// describe is for pictures.
func (h holders) describe() string {
	var list []string
	h.each(func(id string, count int) {
		owner, _, _ := strings.Cut(id, "#")
		list = append(list, fmt.Sprintf("%s x%d", short(owner), count))
	})
	return strings.Join(list, " ")
}

// Sample is which owner the server named as the holder of a lock at a moment.
type Sample struct {
	At    int64
	Name  string
	Owner string
}

// Ghosts finds locks that stood for nobody: the server named an owner that was neither inside a call, nor held the lock, nor
// had done so just before. What is left of a call that failed is given back in the background, which takes Undo, or, after a
// fault, as long as all that recovers. Of a client that was killed, or closed while it could not give back anything, leases
// stand to their end.
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
		mine := o.Owner == s.Owner || o.Asked == s.Owner || (o.Kind == Lock || o.Kind == Try) && o.Owner == "" && o.Asked == ""
		if mine && covers(o.Call, o.Return) {
			return true
		}
	}
	closing := func(w Window) bool { return s.At >= w.From && s.At <= after(w.From, 2*c.Lease+c.Late+c.Recovery) }
	return slices.ContainsFunc(c.Closed[client], closing) || slices.ContainsFunc(tenures(ops, 0), func(t tenure) bool {
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

// Kept counts grants of locks kept by the client: not made by the server, and asked for after the last holder's unlock.
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
