// Package held lets a context tell to which holds it belongs, for packages that know nothing of locks.
//
// Not promised: that a hold lasts. What a context says of it stays true of the grant, also when that is over.
package held

import (
	"context"
	"slices"
)

// Hold is what a context says of a hold that it belongs to. It is immutable.
type Hold struct {
	Lock  string // the name of the lock
	Token uint64 // the fencing token
	outer *Hold
}

type key struct{}

// With returns a context that belongs to a hold, and to those that ctx belongs to.
func With(ctx context.Context, lock string, token uint64) context.Context {
	return context.WithValue(ctx, key{}, &Hold{lock, token, From(ctx)})
}

// From returns the innermost hold that a context belongs to; nil if there is none.
func From(ctx context.Context) *Hold {
	h, _ := ctx.Value(key{}).(*Hold)
	return h
}

// Locks returns the names of the locks of h and of the holds around it, the innermost first and each once.
func (h *Hold) Locks() (names []string) {
	for ; h != nil; h = h.outer {
		if !slices.Contains(names, h.Lock) {
			names = append(names, h.Lock)
		}
	}
	return names
}

// Of returns the innermost hold of that lock, h or one around it; nil if there is none, or no h.
func (h *Hold) Of(lock string) *Hold {
	for h != nil && h.Lock != lock {
		h = h.outer
	}
	return h
}
