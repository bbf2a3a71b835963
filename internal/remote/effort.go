package remote

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
)

// Effort is one operation with all its attempts: their outcome so far, and whether there is to be
// another attempt. It sends nothing itself.
type Effort struct {
	Outcome
	// Script is what the last attempt has sent, or is sending; for [Session.Heard]
	Script  *lua.Script
	key     string // of that, where a server is a cluster
	tries   int
	by      *Server
	home    *Session  // whose options and end count
	start   time.Time // of the first attempt
	end     time.Time // of the retry budget
	delay   time.Duration
	late    bool // an attempt was refused because it was late, and sent again at once
	failure error
}

// Verdict is what follows an attempt.
type Verdict int

// The verdicts.
const (
	Settled Verdict = iota // nothing: there is an answer, or there will be none
	AtOnce                 // another attempt
	Later                  // another one after a pause
)

// NewEffort begins now.
func NewEffort(by *Server, home *Session) Effort {
	now := suspend.System.Now()
	return Effort{
		Outcome: Outcome{Sent: now}, by: by, home: home, start: now, end: now.Add(home.Budget()), delay: FirstBackoff,
	}
}

// Deadline bounds the wait for a connection.
func (e *Effort) Deadline() time.Time { return Latest(e.end, e.start.Add(LeastDial)) }

// Judge takes the outcome of an attempt under a context. Unless failed is nil it stores a failure there, and
// nil when there is an answer, also for a caller who has left. A refusal of what this caller asks for is no
// failure: others are told of failures, too.
func (e *Effort) Judge(ctx context.Context, reply lua.Reply, err error, failed *atomic.Pointer[error]) Verdict {
	e.tries++
	v := e.judge(ctx, reply, err, failed)
	if v == Settled {
		e.explain()
		e.GiveUp()
	}
	return v
}

// explain adds to the end of a context why no connection was opened. It does not change the verdict: the
// command may have gone by another connection.
func (e *Effort) explain() {
	if why := e.unreached(); why != nil && IsContext(e.Err) && !errors.Is(e.Err, why) {
		e.Err = errs.Both(e.Err, why)
	}
}

func (e *Effort) unreached() error {
	if e.by.Cluster != nil && e.key == "" {
		return nil // it was for several masters
	}
	return e.by.Unreached(e.key)
}

// GiveUp says that there will be no other attempt, whatever the verdict on the last one was. It is
// called once.
func (e *Effort) GiveUp() { e.home.Told(e.Script, e.start, e.tries-1, e.Err) }

func (e *Effort) judge(ctx context.Context, reply lua.Reply, err error, failed *atomic.Pointer[error]) Verdict {
	e.Reply, e.Err = reply, err
	if e.Err == nil && e.Reply.Status == lua.Late {
		e.by.Clock.Refused(e.Sent, e.Reply.Text(0))
		if e.Err = ErrLate; !e.late && ctx.Err() == nil {
			e.late = true
			return AtOnce // now the clock is known
		}
	}
	if e.Err == nil {
		if failed != nil {
			failed.Store(nil)
		}
		return Settled
	}
	unsent := lua.IsUnsent(e.Err)
	if IsContext(e.Err) {
		awaitDeadline(ctx)
		if errors.Is(context.Cause(ctx), ErrBudget) {
			e.Err = spent(cmp.Or(e.failure, e.unreached()))
		}
	}
	e.failure = e.Err
	e.home.NotePanic(e.Err)
	if failed != nil && IsOutage(e.Err) && !combine.IsNotSent(e.Err) && (ctx.Err() == nil || !IsContext(e.Err)) {
		err := e.Err
		failed.Store(&err)
	}
	sent, passing := Classify(e.Err)
	if sent {
		e.Unsent = unsent && (e.Unsent || !e.Stray)
		e.Stray = true
	}
	// A ClusterClient has followed it as often as it may; a client of one server never does.
	astray := e.by.Cluster == nil && lua.IsError(e.Err, "MOVED")
	if astray {
		e.Err = errs.Both(errors.New("this server is one of a cluster; use redis.NewClusterClient"), e.Err)
	}
	var last *lastError
	if !passing || astray || errors.As(e.Err, &last) || time.Since(e.start)+e.delay > e.home.Budget() ||
		time.Until(e.end) < e.delay {
		return Settled
	}
	return Later
}

// Pause is how long to wait before the next attempt.
func (e *Effort) Pause() time.Duration {
	d := Spread(e.delay)
	e.delay = min(2*e.delay, LastBackoff)
	return d
}
