// Package held stores in a context the holds to which it belongs, for packages that do not know locks.
//
// Not promised: that a hold lasts. The values describe the grant, also when that is over.
package held

import "context"

// Hold describes a hold to which a context belongs. It is immutable.
type Hold struct {
	Lock  string // the name of the lock
	Token uint64 // the fencing token
	where any    // the servers of the lock: a lock of that name elsewhere is another lock
	outer *Hold
}

type key struct{}

// With returns a context that belongs to a hold, and to those that ctx belongs to. where is
// comparable.
func With(ctx context.Context, lock string, where any, token uint64) context.Context {
	return context.WithValue(ctx, key{}, &Hold{lock, token, where, From(ctx)})
}

// From returns the innermost hold that a context belongs to; nil if there is none.
func From(ctx context.Context) *Hold {
	h, _ := ctx.Value(key{}).(*Hold)
	return h
}

// Locks returns the names of the locks of h and of the holds around it, the innermost first and
// each lock once.
func (h *Hold) Locks() (names []string) {
	for first := h; h != nil; h = h.outer {
		if first.innermost(h) == h {
			names = append(names, h.Lock)
		}
	}
	return names
}

// innermost returns the innermost hold, h or one around it, of the lock that other is of.
func (h *Hold) innermost(other *Hold) *Hold {
	for h != nil && (h.Lock != other.Lock || h.where != other.where) {
		h = h.outer
	}
	return h
}

// Of returns the innermost hold of the lock of that name, h or one around it; nil if there is none,
// or no h, or if there are several such locks.
func (h *Hold) Of(lock string) (of *Hold) {
	for ; h != nil; h = h.outer {
		switch {
		case h.Lock != lock:
		case of == nil:
			of = h
		case h.where != of.where:
			return nil
		}
	}
	return of
}
