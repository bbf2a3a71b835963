package remote

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lua"
)

// Outcome is the outcome of one operation with all its attempts.
type Outcome struct {
	Reply lua.Reply
	// Sent is when the last attempt was sent. A lease is trusted from this time on, never from the
	// time of the reply.
	Sent          time.Time
	MayArriveLate bool // an attempt was sent that nobody answered: it may have run, and may still run
	Err           error
	// Unsent says that no such attempt was written to a connection. It is for the texts of errors
	// only. Hooks of go-redis can make it untrue, and a lock that may have been granted is given back
	// in any case.
	Unsent bool
}

// Operation builds the call of an attempt. again says that an earlier attempt may have run.
type Operation func(again bool) lua.Call

// Action runs one operation until there is an answer, the retry budget is spent or ctx ends. It
// notices the end of ctx between attempts, and may not notice it during one. Unless failed is nil
// it stores each failure there, for a caller who does not wait for the end.
type Action func(ctx context.Context, failed *atomic.Pointer[error]) Outcome

// Repeat runs an operation at a server until the server answers, the retry budget is spent or ctx
// ends. It notices the end of ctx between attempts but not during one, because go-redis does not
// interrupt a read. [Session.Call] returns during an attempt too. Under a context that cannot end,
// Repeat returns when the budget is spent, or a little later, see timeouts.
func (s *Session) Repeat(ctx context.Context, at *Server, op Operation, retry Retry,
	failed *atomic.Pointer[error]) Outcome {
	a := NewAttempts(at, s, retry)
	return a.run(ctx, RetryNow, op, a.send, failed)
}

// Detached runs an operation that its caller cannot cancel. It returns when the operation is done
// or the retry budget is spent, or a little later, see timeouts.
func (s *Session) Detached(ctx context.Context, at *Server, op Operation, budget SharedBudget) Outcome {
	return s.Repeat(ctx, at, op, Retry{Budget: budget, Lasts: true}, nil)
}

// Detach returns a context that does not end with the one given.
func Detach(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx // saves the cost of a wrapper
	}
	return context.WithoutCancel(ctx)
}

// Call runs an operation for a caller who leaves when ctx ends. The caller leaves at once, even
// while go-redis waits in a read. The operation then goes on in the background, and late is called
// with its outcome in place of a return from Call.
//
// If ok is false, the outcome holds only the reason why the operation had failed so far, if it had.
//
// A context that cannot end costs nothing. For other contexts the operation runs in a goroutine of
// its own, because there is no other way to leave a read. (Rejected: go-redis's
// ContextTimeoutEnabled. It is the user's setting, and it covers deadlines but not cancellation.)
func (s *Session) Call(ctx context.Context, run Action, late func(Outcome)) (o Outcome, ok bool) {
	if ctx.Done() == nil {
		return run(ctx, nil), true
	}
	return s.CallNoting(ctx, run, new(atomic.Pointer[error]), late)
}

// CallNoting is Call, and leaves the failures of the attempts where others can read them meanwhile.
func (s *Session) CallNoting(ctx context.Context, run Action, failed *atomic.Pointer[error],
	late func(Outcome)) (o Outcome, ok bool) {
	if ctx.Done() == nil {
		return run(ctx, failed), true
	}
	var settled atomic.Bool // by the first of two events: the result is delivered, or the caller is gone
	result := make(chan Outcome, 1)
	s.Tasks.Go(func() {
		o := run(ctx, failed)
		if settled.CompareAndSwap(false, true) {
			result <- o
			return
		}
		late(o)
	})
	select {
	case o = <-result:
		return o, true
	case <-ctx.Done():
	}
	if settled.CompareAndSwap(false, true) {
		if err := failed.Load(); err != nil {
			o.Err = *err
		}
		return o, false
	}
	return <-result, true
}

// CallPromptly is [Session.CallNoting] for an operation at one server. While that server answers
// promptly, the first attempt runs in the caller's goroutine. This saves the cost of another
// goroutine: half of what a free lock takes, because it wakes a second core.
//
// A caller whose context ends during that attempt waits for the end of the attempt, which is a
// prompt answer. If the server stalls at that moment, the attempt ends soon after the deadline of
// the context, see timeouts. If the context was cancelled before its deadline, the attempt ends
// after the retry budget or go-redis's ReadTimeout. A caller who comes when the stall has been
// noticed leaves at once. So does every caller during all further attempts.
//
// An attempt that has to wait for another one, or for a connection, waits in the caller's goroutine too: a caller
// can leave such a wait. Every attempt in a cluster runs in a goroutine, because one node may stall for long
// while the others answer.
//
// (Rejected: to interrupt the read by a deadline of the connection. The connections belong to the
// user's client, which does not show them.)
func (s *Session) CallPromptly(ctx context.Context, at *Server, q Question, retry Retry,
	failed *atomic.Pointer[error]) (o Outcome, ok bool) {
	switch {
	case ctx.Done() == nil:
		return s.Repeat(ctx, at, q.Call, retry, failed), true
	case !at.isPrompt():
		return s.CallNoting(ctx, func(ctx context.Context, failed *atomic.Pointer[error]) Outcome {
			return s.Repeat(ctx, at, q.Call, retry, failed)
		}, failed, q.Late)
	}
	first := NewAttempts(at, s, retry)
	next := first.runFirst(ctx, q, failed)
	if next == Settled {
		return first.Outcome, true
	}
	rest := first // a copy, so that the attempts of a prompt answer stay on the stack
	return s.CallNoting(ctx, func(ctx context.Context, failed *atomic.Pointer[error]) Outcome {
		return rest.run(ctx, next, q.Call, rest.send, failed)
	}, failed, q.Late)
}

// Question is an operation whose caller may leave. It embeds [Asked].
type Question interface {
	first() *limit
	// Call is its [Operation].
	Call(again bool) lua.Call
	// Late is called with the outcome if the caller has left.
	Late(o Outcome)
}

// Asked is room for the first attempt of a [Question], which saves an allocation.
type Asked struct{ limit limit }

func (a *Asked) first() *limit { return &a.limit }

var _ interface{ first() *limit } = (*Asked)(nil) // what embeds it is in other packages
