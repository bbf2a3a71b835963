package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// Entry is what one owner has at the server, or at several masters of which the majority decides,
// or may have.
type Entry interface {
	// Owner is the owner as the server knows it, "<uuid>:h<n>".
	Owner() string
	// Set tells the hold count, and makes the lease last at least so long. It counts when the
	// replicas have it that are wanted; if too few have, that is an error, and the count stands: it
	// is the caller's to take it back. It is an [remote.Action].
	Set(ctx context.Context, count int, lease time.Duration, want remote.Replicas,
		failed *atomic.Pointer[error]) remote.Outcome
	// Extend makes the lease last at least so long from now. It is an [remote.Action].
	Extend(ctx context.Context, lease time.Duration, failed *atomic.Pointer[error]) remote.Outcome
	// Pass keeps the lock for this client's next holder, or releases it if others want it. The
	// outcome is as [kind.Hander] has it.
	Pass(ctx context.Context, lease time.Duration, tokens int) remote.Outcome
	// Release gives the lock back, or has it stay for the rest of its time, if there is any. Each
	// attempt asks for that anew. The caller cannot cancel it.
	Release(ctx context.Context, rest func() time.Duration) remote.Outcome
	// LossCause is what is known of how the lock was lost; nil if no more than that it is.
	LossCause() error
	// Undo gives back what may have been granted to an owner that is not used any more, nor will
	// be. That is done in the background; Close waits for it. Without a straggler one release is
	// enough.
	Undo(lease time.Duration, stray bool)
	// Abandon is undo where something may stand, or come to stand, unless that is being given back
	// already. What is to stay taken is given back when the rest of its time is over.
	Abandon(rest func() time.Duration, lease time.Duration)

	// The rest is as [Uncertainty] has it.

	MarkStray()
	LeaveUndo()
	IsStray() bool
	SetPlaced(placed bool)
	noteUnheard()
	tainted() bool
}

// field is the entry of an owner at one server: a field of the lock's hash.
type field struct {
	Uncertainty
	server *oneServer
	id     string
}

var _ Entry = (*field)(nil)

// Owner is [Entry.Owner].
func (f *field) Owner() string { return f.id }

// Set is [Entry.Set].
func (f *field) Set(ctx context.Context, count int, lease time.Duration, want remote.Replicas,
	failed *atomic.Pointer[error]) remote.Outcome {
	op := func(bool) lua.Call { return f.server.protocol.Recount(f.id, count, lease) }
	c := f.server.client
	if want.N > 0 {
		return f.Sent(f.server.replicated(want).Repeat(ctx, op, failed))
	}
	return f.Sent(c.session.Repeat(ctx, c.server, op, failed))
}

// Extend is [Entry.Extend].
func (f *field) Extend(ctx context.Context, lease time.Duration, failed *atomic.Pointer[error]) remote.Outcome {
	s := f.server
	op := func(bool) lua.Call { return s.protocol.Renew(f.id, lease) }
	return s.client.session.Repeat(ctx, s.client.server, op, failed)
}

// Pass is [Entry.Pass].
func (f *field) Pass(ctx context.Context, lease time.Duration, tokens int) remote.Outcome {
	s := f.server
	return f.Passed(func() remote.Outcome {
		return s.detached(ctx, func(bool) lua.Call {
			return s.hander.Pass(f.id, lease, tokens, s.client.server.Publish)
		})
	})
}

// Release is [Entry.Release].
func (f *field) Release(ctx context.Context, rest func() time.Duration) remote.Outcome {
	return f.Released(f.server.detached(ctx, func(bool) lua.Call { return f.farewell(rest()) }))
}

// farewell is the command that ends the lock for its owner: at once, or when it has stayed for so
// long.
func (f *field) farewell(rest time.Duration) lua.Call {
	s := f.server
	if rest > 0 {
		return s.protocol.Leave(f.id, rest, s.client.server.Publish)
	}
	return s.protocol.Release(f.id, s.client.server.Publish)
}

// LossCause is [Entry.LossCause].
func (f *field) LossCause() error { return nil }

// Undo is [Entry.Undo].
func (f *field) Undo(lease time.Duration, stray bool) { f.undoAfter(0, lease, stray) }

func (f *field) undoAfter(rest, lease time.Duration, stray bool) {
	c := f.server.client
	// Its place may be there for longer than a lease, and who is called then is not there.
	c.session.Undo(c.server, f.server.protocol, f.id, rest, max(lease, f.server.places.Longest), stray)
}

// Nothing is the rest of a lock that is to be released at once.
func Nothing() time.Duration { return 0 }

// Abandon is [Entry.Abandon].
func (f *field) Abandon(rest func() time.Duration, lease time.Duration) {
	if undo, stray := f.TakeUndo(); undo {
		f.undoAfter(rest(), lease, stray)
	}
}
