package holdfastwatermill

import (
	"context"
	"reflect"

	"github.com/ThreeDotsLabs/watermill/message"
)

// heldKey marks the context of a hold, and what derives from it.
type heldKey struct{}

// goOn takes the hold out of the context of a message that the handler produced, if it is in there. Handlers
// copy the context of their message, for the traces in it. The hold has ended when the router publishes, and a
// publisher that looks at the context, or passes it on, would find it ended.
func goOn(held, outer context.Context, m *message.Message) {
	if m == nil || m.Context().Value(heldKey{}) != held.Value(heldKey{}) {
		return
	}
	m.SetContext(&released{Context: outer, produced: m.Context(), held: held})
}

// released ends with the context that the middleware was given, and has the values of the one that the handler
// made. But what that one has of the hold, such as its owner and its token, is as it was before the hold: two
// messages of one owner would re-enter each other's locks. (Rejected: context.WithoutCancel, which keeps those.)
type released struct {
	context.Context
	produced, held context.Context
}

// Value is that which the handler added, and otherwise that of before.
func (r *released) Value(key any) any {
	if v := r.produced.Value(key); !same(v, r.held.Value(key)) {
		return v
	}
	return r.Context.Value(key)
}

// same says whether two values are the same one. Values that cannot be compared are taken for different ones:
// then the hold, all of whose values can be, has not made them.
func same(a, b any) bool {
	return a == nil && b == nil ||
		a != nil && b != nil && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}
