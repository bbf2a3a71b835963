package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lua"
)

// entry is what one owner has at the server, or at several masters of which the majority decides, or may have.
type entry interface {
	// owner is the owner as the server knows it, "<uuid>:h<n>".
	owner() string
	// set tells the hold count, and makes the lease last at least so long. It counts when the replicas have it that are wanted; if too
	// few have, that is an error, and the count stands: it is the caller's to take it back. It is an [action].
	set(ctx context.Context, count int, lease time.Duration, want replicas, failed *atomic.Pointer[error]) outcome
	// extend makes the lease last at least so long from now. It is an [action].
	extend(ctx context.Context, lease time.Duration, failed *atomic.Pointer[error]) outcome
	// pass keeps the lock for this client's next holder, or releases it if others want it. The outcome is as [kind.Hander] has it.
	pass(ctx context.Context, lease time.Duration, tokens int) outcome
	// release gives the lock back, or has it stay for the rest of its time, if there is any. Each attempt asks for that anew. The
	// caller cannot cancel it.
	release(ctx context.Context, rest func() time.Duration) outcome
	// lossCause is what is known of how the lock was lost; nil if no more than that it is.
	lossCause() error
	// undo gives back what may have been granted to an owner that is not used any more, nor will be. That is done in the
	// background; Close waits for it. Without a straggler one release is enough.
	undo(lease time.Duration, stray bool)
	// abandon is undo where something may stand, or come to stand, unless that is being given back already. What is to stay
	// taken is given back when the rest of its time is over.
	abandon(rest func() time.Duration, lease time.Duration)

	// The rest is as [uncertainty] has it.

	markStray()
	leaveUndo()
	isStray() bool
	setPlaced(placed bool)
	noteUnheard()
	tainted() bool
}

// field is the entry of an owner at one server: a field of the lock's hash.
type field struct {
	uncertainty
	server *oneServer
	id     string
}

var _ entry = (*field)(nil)

// owner is [entry.owner].
func (f *field) owner() string { return f.id }

// set is [entry.set].
func (f *field) set(ctx context.Context, count int, lease time.Duration, want replicas, failed *atomic.Pointer[error]) outcome {
	op := func(bool) lua.Call { return f.server.protocol.Recount(f.id, count, lease) }
	if want.n > 0 {
		return f.sent((&replicated{f.server.base, want}).repeat(ctx, op, failed))
	}
	return f.sent(f.server.client.repeat(ctx, op, failed))
}

// extend is [entry.extend].
func (f *field) extend(ctx context.Context, lease time.Duration, failed *atomic.Pointer[error]) outcome {
	return f.server.client.repeat(ctx, func(bool) lua.Call { return f.server.protocol.Renew(f.id, lease) }, failed)
}

// pass is [entry.pass].
func (f *field) pass(ctx context.Context, lease time.Duration, tokens int) outcome {
	s := f.server
	return f.passed(func() outcome {
		return s.client.detached(ctx, func(bool) lua.Call { return s.hander.Pass(f.id, lease, tokens, s.client.publish) })
	})
}

// release is [entry.release].
func (f *field) release(ctx context.Context, rest func() time.Duration) outcome {
	return f.released(f.server.client.detached(ctx, func(bool) lua.Call { return f.farewell(rest()) }))
}

// farewell is the command that ends the lock for its owner: at once, or when it has stayed for so long.
func (f *field) farewell(rest time.Duration) lua.Call {
	s := f.server
	if rest > 0 {
		return s.protocol.Leave(f.id, rest, s.client.publish)
	}
	return s.protocol.Release(f.id, s.client.publish)
}

// lossCause is [entry.lossCause].
func (f *field) lossCause() error { return nil }

// undo is [entry.undo].
func (f *field) undo(lease time.Duration, stray bool) { f.undoAfter(0, lease, stray) }

func (f *field) undoAfter(rest, lease time.Duration, stray bool) {
	c := f.server.client
	if f.server.queuer != nil { // its place may be there for longer, and who is called then is not there
		lease = max(lease, longestPlace)
	}
	c.undoAt(c, f.server.base, f.id, rest, lease, stray)
}

// nothing is the rest of a lock that is to be released at once.
func nothing() time.Duration { return 0 }

// abandon is [entry.abandon].
func (f *field) abandon(rest func() time.Duration, lease time.Duration) {
	if undo, stray := f.takeUndo(); undo {
		f.undoAfter(rest(), lease, stray)
	}
}
