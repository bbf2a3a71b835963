package remote

import (
	"context"
	"sync/atomic"
)

// Call runs an operation for a caller who leaves when ctx ends, at once even if go-redis sits in a
// read. The operation then goes on in the background and late is called with what came of it, in
// place of a return from call.
//
// Without ok the outcome is only why the operation had failed so far, if it had.
//
// A context that cannot end costs nothing; for the others the operation runs in a goroutine of its
// own, because there is no other way to leave a read. (Rejected: go-redis's ContextTimeoutEnabled.
// It is the user's setting, and it covers deadlines but not cancellation.)
func (s *Session) Call(ctx context.Context, run Action, late func(Outcome)) (o Outcome, ok bool) {
	if ctx.Done() == nil {
		return run(ctx, nil), true
	}
	return s.CallNoting(ctx, run, new(atomic.Pointer[error]), late)
}

// CallNoting is call with the failures of the attempts left where others can see them meanwhile.
func (s *Session) CallNoting(ctx context.Context, run Action, failed *atomic.Pointer[error],
	late func(Outcome)) (o Outcome, ok bool) {
	if ctx.Done() == nil {
		return run(ctx, failed), true
	}
	var settled atomic.Bool // by the first of the two: result delivered, or caller gone
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

// CallPromptly is [Session.CallNoting] for an operation that one server is asked for. While that
// server answers promptly, the first attempt is made in the goroutine of the caller, who saves what
// another one costs: half of what a free lock takes, because it wakes a second core.
//
// Who leaves in the middle of that attempt waits for its end. That is a prompt answer. If the server
// stalls in that moment, it is soon after the deadline of the context, see timeouts; where that was
// cancelled before, it is the retry budget or go-redis's ReadTimeout. Whoever comes when the
// stall has been noticed leaves at once, and so does everybody during all further attempts. An
// attempt that would have to wait for another one or for a new connection, which can take longer,
// is made in a goroutine as well; and so are all in a cluster, where one node may stall for long
// while the others answer.
//
// (Rejected: to interrupt the read by a deadline of the connection. The connections are the user's
// client's, which does not show them.)
func (s *Session) CallPromptly(ctx context.Context, at *Server, run Action, failed *atomic.Pointer[error],
	late func(Outcome)) (o Outcome, ok bool) {
	if ctx.Done() == nil || !at.isReady() {
		return s.CallNoting(ctx, run, failed, late)
	}
	first := &firstAttempt{Context: ctx}
	if o = run(first, failed); first.rest == nil {
		return o, true
	}
	return s.CallNoting(ctx, func(ctx context.Context, failed *atomic.Pointer[error]) Outcome {
		rest := *first.rest
		rest.Context = ctx
		return run(rest, failed)
	}, failed, late)
}

// firstAttempt is a context under which an operation returns after its first attempt.
type firstAttempt struct {
	context.Context
	rest *furtherAttempts // what is left to do then; nil: nothing
}

// furtherAttempts is a context under which an operation goes on after its first attempt.
type furtherAttempts struct {
	context.Context
	effort  Effort
	verdict Verdict // on the first attempt
}
