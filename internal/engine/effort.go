package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
)

// effort is one operation with all its attempts, whoever sends them: what they came to, and whether there is to be
// another.
type effort struct {
	Outcome
	by      *server
	home    *session  // whose options and end count
	start   time.Time // of the first attempt
	end     time.Time // of the retry budget
	delay   time.Duration
	late    bool // an attempt was refused because it was late, and sent again at once
	failure error
}

// verdict is what follows an attempt.
type verdict int

const (
	settled verdict = iota // nothing: there is an answer, or there will be none
	atOnce                 // another attempt
	later                  // another one after a pause
)

func newEffort(by *server, home *session) effort {
	now := suspend.System.Now()
	return effort{
		Outcome: Outcome{Sent: now}, by: by, home: home, start: now, end: now.Add(home.budget()), delay: FirstBackoff,
	}
}

// deadline bounds the wait for a connection.
func (e *effort) deadline() time.Time { return latest(e.end, e.start.Add(leastDial)) }

// judge takes what an attempt under a context came to. A failure is left in failed, if that is given.
func (e *effort) judge(ctx context.Context, reply lua.Reply, err error, failed *atomic.Pointer[error]) verdict {
	e.Reply, e.Err = reply, err
	if e.Err == nil && e.Reply.Status == lua.Late {
		e.by.clock.Refused(e.Sent, e.Reply.Text(0))
		if e.Err = ErrLate; !e.late && ctx.Err() == nil {
			e.late = true
			return atOnce // now the clock is known
		}
	}
	if e.Err == nil {
		return settled
	}
	unsent := lua.IsUnsent(e.Err)
	if IsContext(e.Err) {
		awaitDeadline(ctx)
		if errors.Is(context.Cause(ctx), errBudget) {
			e.Err = spent(e.failure)
		}
	}
	e.failure = e.Err
	e.home.notePanic(e.Err)
	if failed != nil && (ctx.Err() == nil || !IsContext(e.Err)) {
		err := e.Err
		failed.Store(&err)
	}
	sent, passing := Classify(e.Err)
	if sent {
		e.Unsent = unsent && (e.Unsent || !e.Stray)
		e.Stray = true
	}
	var last *lastError
	if !passing || errors.As(e.Err, &last) || control.Resend.Off() || time.Since(e.start)+e.delay > e.home.budget() ||
		time.Until(e.end) < e.delay {
		return settled
	}
	return later
}

// pause is how long to wait before the next attempt.
func (e *effort) pause() time.Duration {
	d := Spread(e.delay)
	e.delay = min(2*e.delay, LastBackoff)
	return d
}
