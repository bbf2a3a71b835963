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

// holders are who has something, and how many of it each, as text: states of models are compared.
type holders string

// id is what a grant is called among holders.
func (o *Op) id() string {
	return fmt.Sprintf("%s#%d#%d", o.Owner, o.Token, o.Grant)
}

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
