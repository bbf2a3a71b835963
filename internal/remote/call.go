package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
)

// Delays between the attempts of one operation: doubling from the first to the last, each shortened
// at random so that clients that failed together do not come back together.
const (
	FirstBackoff = 5 * time.Millisecond
	LastBackoff  = 250 * time.Millisecond
	// closingBudget is the retry budget of a client that is closing: long enough for connections
	// that a restart of the server left behind, short enough not to hold up a process that ends.
	closingBudget = time.Second
	// LeastDial is how long a connection is waited for, however short the budget: each operation is
	// tried once.
	LeastDial = time.Second
)

// Outcome is the outcome of one operation with all its attempts.
type Outcome struct {
	Reply lua.Reply
	Sent  time.Time // when the last attempt was sent: what is trusted is counted from here, never from the reply
	Stray bool      // an attempt was sent that nobody answered: it may have run, and may still
	Err   error
	// Unsent says that no stray attempt was written to a connection. It is for the texts of errors
	// only: hooks of go-redis can make it untrue, and a lock that may have been granted is given
	// back all the same.
	Unsent bool
}

// Operation builds the call of an attempt; again says that an earlier one may have been executed.
type Operation func(again bool) lua.Call

// Action runs one operation until there is an answer, the retry budget is spent or ctx ends. It
// notices the end of ctx between attempts, and may not notice it during one. It stores each failure
// in failed, unless that is nil, for a caller that does not wait for the end.
type Action func(ctx context.Context, failed *atomic.Pointer[error]) Outcome

// ErrLate says that a request was on its way for too long. The server has done nothing.
var ErrLate = errors.New("the request reached the server later than it was to be executed")

// ErrBudget is that an operation has taken as long as it may.
var ErrBudget = errors.New("no answer within Options.RetryBudget")

// spent is the error of an operation that has taken as long as it may, with the last failure of the
// network, if there was one. The error of the last attempt itself is left out: it says that a
// context ended, and that is ours, but would be taken for the caller's.
func spent(failure error) error {
	if failure == nil {
		return ErrBudget
	}
	return errs.Both(ErrBudget, failure)
}

// Repeat runs an operation at a server until that answers, the retry budget is spent or ctx ends.
// It notices the end of ctx between attempts, but not during one, because go-redis does not
// interrupt a read. [Session.Call] returns during an attempt too. Under a context that cannot end it
// returns when the budget is spent, or a little later, see timeouts.
func (s *Session) Repeat(ctx context.Context, at *Server, op Operation, failed *atomic.Pointer[error]) Outcome {
	return s.persist(ctx, at, op, failed, func(ctx context.Context, call lua.Call, haste bool) (lua.Reply, error) {
		return s.send(ctx, at, call, haste)
	})
}

// RepeatOnce is Repeat for callers who do not wait. It asks the server once, and once more only if
// it met a connection that the server had closed while it was idle.
func (s *Session) RepeatOnce(ctx context.Context, at *Server, op Operation, failed *atomic.Pointer[error]) Outcome {
	_, tried := ctx.(furtherAttempts)
	return s.persist(ctx, at, op, failed, func(ctx context.Context, call lua.Call, haste bool) (lua.Reply, error) {
		reply, err := s.send(ctx, at, call, haste)
		if err != nil && (tried || !isStale(err)) {
			err = &lastError{err}
		}
		tried = true
		return reply, err
	})
}

// lastError is an error after which there is no other attempt.
type lastError struct{ error }

func (e *lastError) Unwrap() error { return e.error }

// isStale reports whether the connection had been closed by the other side.
func isStale(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Latest is the later of two times.
func Latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Within returns a context that its caller cannot end, for operations that share one retry budget. One that
// it has returned stays as it is.
func Within(ctx context.Context, d time.Duration) context.Context {
	if _, is := ctx.(bounded); is {
		return ctx
	}
	return bounded{Detach(ctx), time.Now().Add(d)}
}

// Inherit gives a context that derives from another one the budget that [Within] gave that one.
func Inherit(ctx, from context.Context) context.Context {
	if b, is := from.(bounded); is {
		return bounded{Detach(ctx), b.until}
	}
	return ctx
}

type bounded struct {
	context.Context
	until time.Time
}

// persist is Repeat with another way of running an attempt. The rest of the budget also bounds the
// wait for a connection: go-redis dials five times, and with TLS each takes the whole DialTimeout.
// It bounds a read only in haste.
func (s *Session) persist(ctx context.Context, at *Server, op Operation, failed *atomic.Pointer[error],
	run func(ctx context.Context, call lua.Call, haste bool) (lua.Reply, error),
) Outcome {
	e, v := NewEffort(at, s), AtOnce
	first, isFirst := ctx.(*firstAttempt)
	switch rest, isRest := ctx.(furtherAttempts); {
	case isFirst:
		ctx = first.Context
	case isRest:
		ctx, e, v = rest.Context, rest.effort, rest.verdict
	}
	if b, ok := ctx.(bounded); ok && b.until.Before(e.end) {
		e.end = b.until
	}
	// Whoever called waits for the end of this, unless a context ends sooner behind which this goes on: see
	// [Session.CallNoting].
	limit, limited := ctx.Deadline()
	haste := isFirst || !limited || limit.After(e.end)
	end := e.Deadline() // sooner where no connection has to be opened, or that takes no longer than an answer
	if haste && e.end.Before(end) && (at.hasConnection() || at.pulse.answeredLately()) {
		end = e.end
	}
	ctx, cancel := context.WithDeadlineCause(ctx, end, ErrBudget)
	defer cancel()
	for {
		if v == Later {
			if !errs.IsReply(e.Err) && at.Cluster != nil {
				// A ClusterClient asks a dead master again for up to a minute unless it is told to
				// look.
				at.Cluster.ReloadState(ctx)
			}
			select {
			case <-time.After(e.Pause()):
			case <-ctx.Done():
				e.GiveUp()
				return e.Outcome
			}
		}
		e.Sent = suspend.System.Now()
		call := op(e.Stray)
		if e.Script = call.Script(); at.Cluster != nil {
			e.key = call.Key()
		}
		reply, err := run(ctx, call, haste)
		v = e.Judge(ctx, reply, err, failed)
		switch {
		case v == Settled:
			return e.Outcome
		case isFirst:
			first.rest = &furtherAttempts{nil, e, v}
			return e.Outcome
		}
	}
}

// awaitDeadline waits for the end of a context whose deadline has passed. A command with the same
// deadline, one that travels with others, may end a moment before the context, and only the context
// has the cause.
func awaitDeadline(ctx context.Context) {
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > 0 {
		return
	}
	timer := time.NewTimer(time.Second) // for contexts that only pretend to have a deadline
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// NotePanic logs an error that is the panic of a hook or dialer of go-redis. There may be no caller
// left to panic in, and the caller's own panic does not show where the hook's was.
func (s *Session) NotePanic(err error) {
	if p := panics.In(err); p != nil {
		s.Log.Error("a command failed", "error", p, "stack", string(p.Stack))
	}
}

// Budget is how long an operation may take.
func (s *Session) Budget() time.Duration {
	if s.Life.Err() != nil {
		return min(s.Retry, closingBudget)
	}
	return s.Retry
}

// Classify says of an error whether the command may have run all the same, and whether another
// attempt may succeed.
func Classify(err error) (sent, passing bool) {
	if errors.Is(err, ErrBudget) {
		return true, false // from the wait for a connection or from the read; assume the worse
	}
	if errs.IsReply(err) {
		for _, prefix := range []string{
			"LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "READONLY", "NOREPLICAS", "BUSY ", "MOVED", "ASK",
			// a replica that was a master, asked over a READONLY connection, refuses the first write; a master to which
			// a slot moves, to look for a key that is not there yet (see lua/part/timeouts.lua)
			"Attempted to access a non local key", "Script attempted to access a non local key",
			"Lua script attempted to access a non local key",
			"max number of clients", "UNBLOCKED", "WAIT cannot", "WAITAOF cannot", // the last three: it was demoted
		} {
			if lua.IsError(err, prefix) {
				return false, true // the server did not begin; soon it may
			}
		}
		return false, false
	}
	var op *net.OpError
	switch {
	case errors.Is(err, errs.ErrNotReplicated):
		return false, false // an answer too
	case errors.Is(err, ErrLate):
		return false, true // the next one gets more time
	case panics.In(err) != nil:
		return true, false // it goes on to the caller, if there is one, and not through a hook that has just panicked
	case combine.IsNotSent(err):
		return false, true
	case isHandshake(err):
		return false, false // certificates do not change by waiting
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, redis.ErrPoolTimeout),
		errors.Is(err, redis.ErrPoolExhausted):
		return false, true // it never left
	case errors.Is(err, redis.ErrClosed):
		return false, false // the user closed the go-redis client
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return true, false // may come from the wait for a connection or from the read; assume the worse
	}
	return true, true
}

// IsContext reports whether an operation failed because its context ended: that says nothing of the
// server.
func IsContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// isHandshake reports whether TLS failed before anything else was sent: we do not trust the server,
// the server does not trust us, or it does not speak TLS.
func isHandshake(err error) bool {
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	var op *net.OpError
	return errors.As(err, &untrusted) || errors.As(err, &plain) || errors.As(err, &op) && op.Op == "remote error"
}

// Detached runs an operation that its caller cannot cancel. It returns when the operation is done
// or the retry budget is spent, or a little later, see timeouts.
func (s *Session) Detached(ctx context.Context, at *Server, op Operation) Outcome {
	return s.Repeat(Lasting(ctx), at, op, nil)
}

// Lasting is the context of an operation that its caller cannot cancel.
func Lasting(ctx context.Context) context.Context {
	return Detach(ctx)
}

// Detach is a context that does not end with the one given.
func Detach(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx // spares what a wrapper costs
	}
	return context.WithoutCancel(ctx)
}

// Spread shortens a delay at random, so that clients that failed together do not return together.
func Spread(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1) //nolint:gosec // spreads load, guards nothing
}

// IsOutage reports whether an error leaves open who has the lock: the server did not answer, or
// said that it cannot serve now. A refusal for good, as of a missing permission, is no outage.
func IsOutage(err error) bool {
	var own interface {
		error
		Outage() bool
	}
	switch {
	case errors.Is(err, errs.ErrNotReplicated), errors.Is(err, errs.ErrInvalid):
		return false
	case errors.Is(err, ErrBudget):
		return true
	case errors.As(err, &own): // of several servers, of which each said something else
		return own.Outage()
	case errs.IsReply(err):
		_, passing := Classify(err)
		return passing
	}
	return true
}

// ErrSilent says that a master does not answer.
var ErrSilent = errors.New("no answer")
