package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// field is the entry of an owner at one server: a field of the lock's hash.
type field struct {
	Uncertainty
	server *oneServer
	id     string
	ticket string // of the first refusal; of the goroutine that asks
	// How many permits it has, if they are several. It is set before the grant is live.
	several int

	// overdue gives back what a question may come to that goes on without its caller, and takes long; answered says that
	// one has ended since. The mutex of Uncertainty guards both.
	overdue  *time.Timer
	answered bool
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
		return f.Sent(f.overwritten(f.server.replicated(want).Repeat(ctx, op, failed)))
	}
	return f.Sent(f.overwritten(c.session.Repeat(ctx, c.server, op, failed)))
}

// Extend is [Entry.Extend].
func (f *field) Extend(ctx context.Context, lease time.Duration, failed *atomic.Pointer[error]) remote.Outcome {
	s := f.server
	op := func(bool) lua.Call { return f.renewal(lease) }
	return f.overwritten(s.client.session.Repeat(ctx, s.client.server, op, failed))
}

// overwritten takes the answer that the key is no hash for what it says: the hash is gone, and the owner
// with it, as for [oneServer.Renew]. It is not used where a script asks for more than the hash.
func (f *field) overwritten(o remote.Outcome) remote.Outcome {
	if remote.IsOverwritten(f.server.protocol, o.Err) {
		o.Reply, o.Err = lua.Reply{Status: lua.Gone}, nil
	}
	return o
}

// permits is [permitted.permits].
func (f *field) permits(n int) { f.several = n }

// renewal is the script that renews.
func (f *field) renewal(lease time.Duration) lua.Call {
	if f.several > 1 {
		return f.server.protocol.(kind.Several).RenewSeveral(f.id, f.several, lease)
	}
	return f.server.protocol.Renew(f.id, lease)
}

// Pass is [Entry.Pass].
func (f *field) Pass(ctx context.Context, lease time.Duration, tokens int) remote.Outcome {
	s := f.server
	return f.Passed(func() remote.Outcome {
		return f.believed(ctx, s.detached(ctx, func(bool) lua.Call {
			return s.hander.Pass(f.id, lease, tokens, s.client.server.Publish)
		}))
	})
}

// believed is the outcome of a release. It is an error where a repeat did not find the owner, and others have had
// the lock since.
func (f *field) believed(ctx context.Context, o remote.Outcome) remote.Outcome {
	if o.Err != nil || o.Reply.Status != lua.Gone || !o.Stray {
		return o
	}
	s := f.server
	o.Err = s.client.session.Taken(ctx, s.client.server, s.protocol.Name(), f.id, f.last.Load(), s.base.traits.Shared)
	return o
}

// Release is [Entry.Release].
func (f *field) Release(ctx context.Context, rest func() time.Duration) remote.Outcome {
	o := f.overwritten(f.server.detached(ctx, func(bool) lua.Call { return f.farewell(rest()) }))
	o = f.Released(f.believed(ctx, o))
	if o.Err == nil && o.Reply.Status == lua.Done { // else one of them may have been handed the lock since
		f.takeServed()
	}
	return o
}

// farewell is the command that ends the lock for its owner: at once, or when it has stayed for so
// long.
func (f *field) farewell(rest time.Duration) lua.Call {
	s := f.server
	if rest > 0 {
		return s.protocol.Leave(f.id, rest, s.client.server.Publish)
	}
	if served := f.allServed(); len(served) > 0 {
		return s.protocol.(kind.Queuer).ReleaseRun(f.id, served, s.client.server.Publish)
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

// leave is for a question that goes on without its caller. What it comes to is given back when it has ended, see
// [field.left]. That may take as long as go-redis reads from a silent connection. So it is given back by another connection,
// too, as soon as an answer is overdue: otherwise a lock that was granted meanwhile would be nobody's for that long.
func (f *field) leave(lease time.Duration) {
	f.LeaveUndo()
	c := f.server.client
	c.tasks.Begin()
	overdue := time.AfterFunc(c.overdue(), func() {
		defer c.tasks.End()
		f.Undo(lease, true)
	})
	f.mu.Lock()
	f.overdue = overdue
	answered := f.answered
	f.mu.Unlock()
	if answered {
		f.left()
	}
}

// left notes that such a question has ended.
func (f *field) left() {
	f.mu.Lock()
	f.answered = true
	overdue := f.overdue
	f.overdue = nil
	f.mu.Unlock()
	if overdue != nil && overdue.Stop() {
		f.server.client.tasks.End()
	}
}

// Abandon is [Entry.Abandon].
func (f *field) Abandon(rest func() time.Duration, lease time.Duration) {
	if undo, stray := f.TakeUndo(); undo {
		f.undoAfter(rest(), lease, stray)
	}
	s := f.server
	for _, id := range f.takeServed() {
		s.client.session.Undo(s.client.server, s.protocol, id, 0, s.places.Longest, false)
	}
}
