package holdfast

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lua"
)

// repeater is what operations are sent to.
type repeater interface {
	// repeat runs an operation until there is an answer, the retry budget is spent or ctx ends. Between attempts it gives up; during
	// one it may not be able to. Each failure is left in failed, if that is given, for a caller that does not wait for the end.
	repeat(ctx context.Context, op operation, failed *atomic.Pointer[error]) outcome
}

// entry is what one owner has at the server, or at several masters of which the majority decides, or may have.
type entry interface {
	repeater
	// owner is the owner as the server knows it, "<uuid>:h<n>".
	owner() string
	// pass keeps the lock for this client's next holder, or releases it if others want it. The outcome is as [kind.Hander] has it.
	pass(ctx context.Context, lease time.Duration, tokens int) outcome
	// release gives the lock back. The caller cannot cancel it.
	release(ctx context.Context) outcome
	// undo gives back what may have been granted to an owner that is not used any more, nor will be. That is done in the
	// background; Close waits for it. Without a straggler one release is enough.
	undo(lease time.Duration, stray bool)
}

// field is the entry of an owner at one server: a field of the lock's hash.
type field struct {
	base *Base
	id   string
}

var _ entry = (*field)(nil)

// repeat is [repeater.repeat].
func (f *field) repeat(ctx context.Context, op operation, failed *atomic.Pointer[error]) outcome {
	return f.base.client.repeat(ctx, op, failed)
}

// owner is [entry.owner].
func (f *field) owner() string { return f.id }

// pass is [entry.pass].
func (f *field) pass(ctx context.Context, lease time.Duration, tokens int) outcome {
	b := f.base
	return detached(ctx, f, func(bool) lua.Call { return b.hander.Pass(f.id, lease, tokens, b.client.publish) })
}

// release is [entry.release].
func (f *field) release(ctx context.Context) outcome {
	b := f.base
	return detached(ctx, f, func(bool) lua.Call { return b.wire.Release(f.id, b.client.publish) })
}

// undo is [entry.undo].
func (f *field) undo(lease time.Duration, stray bool) {
	c := f.base.client
	c.undoAt(c, f.base, f.id, lease, stray)
}
