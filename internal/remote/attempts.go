package remote

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
)

// Delays between the attempts of one operation. They double from the first to the last. Each is
// shortened at random, so that clients that failed together do not come back together.
const (
	FirstBackoff = 5 * time.Millisecond
	LastBackoff  = 250 * time.Millisecond
	// closingBudget is the retry budget of a client that is closing. It is long enough to get past
	// connections that a restart of the server left behind, and short enough not to hold up a process
	// that ends.
	closingBudget = time.Second
	// LeastDial is how long an operation waits for a connection, however short its budget is: each
	// operation is tried once.
	LeastDial = time.Second
)

// Retry says how an operation is repeated when the server does not answer. The zero value repeats
// the operation until the retry budget of the session is spent.
type Retry struct {
	Budget SharedBudget // the zero value: the operation has a budget of its own
	// Once is for callers who do not wait. The operation is sent once. It is sent a second time only
	// if the first attempt met a connection that the server had closed while it was idle.
	Once bool
	// Lasts is for callers who cannot cancel the operation. It goes on when their context ends.
	Lasts bool
}

// SharedBudget is one retry budget for several operations. All of them end when it ends. The zero
// value is no budget.
type SharedBudget struct{ end time.Time }

// NewSharedBudget returns a budget that begins now.
func NewSharedBudget(d time.Duration) SharedBudget { return SharedBudget{time.Now().Add(d)} }

// Or returns the budget, or a new one that begins now if this is the zero value.
func (b SharedBudget) Or(d time.Duration) SharedBudget {
	if !b.end.IsZero() {
		return b
	}
	return NewSharedBudget(d)
}

// Attempts is one operation with all its attempts: the outcome so far, and whether another attempt
// follows. Package fair sends the attempts itself, and passes each answer to [Attempts.Decide].
type Attempts struct {
	Outcome
	// Script is what the last attempt sent, or is sending. [Session.Report] needs it.
	Script  *lua.Script
	key     string // of the script, if the server is a cluster
	made    int    // the number of attempts that have ended
	at      *Server
	home    *Session // its options and its end count
	once    bool     // as in Retry
	lasts   bool     // as in Retry
	start   time.Time
	end     time.Time // of the retry budget
	delay   time.Duration
	late    bool // the server refused an attempt because it was late, and the next one was sent at once
	failure error
}

// Decision is what follows an attempt.
type Decision int

// The decisions.
const (
	Settled    Decision = iota // nothing: there is an answer, or there will be none
	RetryNow                   // another attempt
	RetryLater                 // another attempt after a pause
)

// NewAttempts begins an operation. Its retry budget begins now.
func NewAttempts(at *Server, home *Session, retry Retry) Attempts {
	now := suspend.System.Now()
	a := Attempts{
		Outcome: Outcome{Sent: now}, at: at, home: home, once: retry.Once, lasts: retry.Lasts, start: now, end: now.Add(home.Budget()),
		delay: FirstBackoff,
	}
	if end := retry.Budget.end; !end.IsZero() && end.Before(a.end) {
		a.end = end
	}
	return a
}

// sender sends a call once. In haste it returns soon after the deadline of the context.
type sender func(ctx context.Context, call lua.Call, haste bool) (lua.Reply, error)

// send is the sender of an operation that one server answers, or its cluster.
func (a *Attempts) send(ctx context.Context, call lua.Call, haste bool) (lua.Reply, error) {
	return a.home.send(ctx, a.at, call, haste)
}

// run makes attempts until the operation is settled, or until ctx ends between two attempts. next
// is [RetryNow], or what was decided after an attempt before.
func (a *Attempts) run(ctx context.Context, next Decision, op Operation, send sender,
	failed *atomic.Pointer[error]) Outcome {
	limited, haste := a.limited(ctx, false, new(limit))
	defer limited.stop()
	for {
		if next == RetryLater {
			if !errs.IsReply(a.Err) && a.at.Cluster != nil {
				// A ClusterClient asks a dead master again for up to a minute, unless it is told to look
				// for another one.
				a.at.Cluster.ReloadState(limited)
			}
			select {
			case <-time.After(a.Pause()):
			case <-limited.wait():
				a.GiveUp()
				return a.Outcome
			}
		}
		if next = a.attempt(limited, haste, op, send, failed); next == Settled {
			return a.Outcome
		}
	}
}

// runFirst makes the first attempt for a caller who waits for its end.
func (a *Attempts) runFirst(ctx context.Context, q Question, failed *atomic.Pointer[error]) Decision {
	limited, haste := a.limited(ctx, true, q.first())
	defer limited.stop()
	return a.attempt(limited, haste, q.Call, a.send, failed)
}

// limited makes l a context that ends when the budget does. haste says that the caller returns at
// that time, so an attempt must not last longer. That is always so if the caller waits for the end
// of the attempt itself. Otherwise it is so unless the caller's context ends sooner, because the
// attempts then go on without the caller, see [Session.CallNoting].
//
// The budget also limits the wait for a connection: go-redis dials five times, and with TLS each of
// these takes the whole DialTimeout. The budget limits a read only in haste.
func (a *Attempts) limited(ctx context.Context, waits bool, l *limit) (_ *limit, haste bool) {
	l.Context, l.lasts = ctx, a.lasts
	callers, ends := l.parent().Deadline()
	haste = waits || !ends || callers.After(a.end)
	// A wait for a connection may last longer than the budget, see LeastDial. No such wait is likely
	// if there is a connection, or if the server has just answered: to open one then takes no longer
	// than an answer does.
	l.end = a.Deadline()
	if haste && a.end.Before(l.end) && (a.at.latency.answeredLately() || a.at.hasConnection()) {
		l.end = a.end
	}
	if a.at.Cluster != nil {
		l.looked = true // what is sent in the background is waited for at once
	}
	return l, haste
}

// attempt makes one attempt.
func (a *Attempts) attempt(ctx context.Context, haste bool, op Operation, send sender,
	failed *atomic.Pointer[error]) Decision {
	a.Sent = suspend.System.Now()
	call := op(a.MayArriveLate)
	if a.Script = call.Script(); a.at.Cluster != nil {
		a.key = call.Key()
	}
	reply, err := send(ctx, call, haste)
	return a.Decide(ctx, reply, err, failed)
}

// Deadline limits the wait for a connection.
func (a *Attempts) Deadline() time.Time { return Latest(a.end, a.start.Add(LeastDial)) }

// Decide takes the result of an attempt under ctx. Unless failed is nil, Decide stores a failure
// there, and nil when there is an answer, also for a caller who has left. A refusal of what this
// caller asks for is not a failure, because others read failed too.
func (a *Attempts) Decide(ctx context.Context, reply lua.Reply, err error, failed *atomic.Pointer[error]) Decision {
	a.made++
	next := a.decide(ctx, reply, err, failed)
	if next == Settled {
		a.explain()
		a.GiveUp()
	}
	return next
}

// explain adds to the end of a context why no connection was opened. It does not change the
// decision: the command may have used another connection.
func (a *Attempts) explain() {
	if why := a.unreached(); why != nil && IsContext(a.Err) && !errors.Is(a.Err, why) {
		a.Err = errs.Both(a.Err, why)
	}
}

func (a *Attempts) unreached() error {
	if a.at.Cluster != nil && a.key == "" {
		return nil // the command was for several masters
	}
	return a.at.Unreached(a.key)
}

// GiveUp says that no attempt follows, whatever was decided after the last one. It is called once.
func (a *Attempts) GiveUp() { a.home.Report(a.Script, a.start, a.made-1, a.Err) }

func (a *Attempts) decide(ctx context.Context, reply lua.Reply, err error, failed *atomic.Pointer[error]) Decision {
	a.Reply, a.Err = reply, err
	if failed != nil && err == nil {
		failed.Store(nil) // also if it came too late: the server answers
	}
	if a.Err == nil && a.Reply.Status == lua.Late {
		a.at.Clock.Refused(a.Sent, a.Reply.LateTime())
		if a.Err = ErrLate; !a.late && ctx.Err() == nil {
			a.late = true
			return RetryNow // the clock is known now
		}
	}
	if a.Err == nil {
		return Settled
	}
	unsent := lua.IsUnsent(a.Err)
	if IsContext(a.Err) {
		awaitDeadline(ctx)
		if isSpent(ctx) {
			a.Err = spent(cmp.Or(a.failure, a.unreached()), a.at.from(a.key))
		}
	}
	a.failure = a.Err
	a.home.NotePanic(a.Err)
	if failed != nil && err != nil && IsOutage(a.Err) && !isUnsent(a.Err) && (ctx.Err() == nil || !IsContext(a.Err)) {
		err := a.Err
		failed.Store(&err)
	}
	sent, passing := Classify(a.Err)
	if sent {
		a.Unsent = unsent && (a.Unsent || !a.MayArriveLate)
		a.MayArriveLate = true
	}
	// A ClusterClient has followed MOVED as often as it may. A client of one server never follows it.
	astray := a.at.Cluster == nil && lua.IsError(a.Err, "MOVED")
	if astray {
		a.Err = errs.Both(errors.New("this server is one of a cluster; use redis.NewClusterClient"), a.Err)
	}
	last := a.once && err != nil && (a.made > 1 || !isStale(err))
	if !passing || astray || last || time.Since(a.start)+a.delay > a.home.Budget() || time.Until(a.end) < a.delay {
		return Settled
	}
	return RetryLater
}

// Pause returns how long to wait before the next attempt.
func (a *Attempts) Pause() time.Duration {
	d := Spread(a.delay)
	a.delay = min(2*a.delay, LastBackoff)
	return d
}

// Spread shortens a delay at random, so that clients that failed together do not come back
// together.
func Spread(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1) //nolint:gosec // spreads load, guards nothing
}

// Latest returns the later of two times.
func Latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
