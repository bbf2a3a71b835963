package history

import (
	"cmp"
	"slices"
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

// byName sorts the operations under their names. What concerns all names (a crash, a wipe) is under
// each.
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

// tenures finds the grants of one name. A grant whose end nobody confirmed may stand for a lease
// more.
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
