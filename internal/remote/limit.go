package remote

import (
	"context"
	"errors"
	"sync"
	"time"
)

// limit is a context that ends at a time, like that of [context.WithDeadline]. It makes a timer only
// when somebody waits for its end. Most commands are answered at once, and a context with a timer
// would cost a fifth of all that a free lock allocates.
//
// go-redis looks at Done once before each command, and again where it has to wait for a connection.
// So the first call of Done returns a channel that does not close at the time, and every further call
// returns one that does. Deadline and Err know the time from the beginning. Where a first call of Done is
// a wait already, as in a hook of the user's, that wait ends with the parent, or with the operation if the
// parent cannot end.
//
// (Rejected: a pool of contexts with timers. A hook may keep the context that it has seen.)
type limit struct {
	context.Context // the parent
	end             time.Time
	mu              sync.Mutex // guards the rest, but for lasts
	lasts           bool       // the limit does not end with its parent
	looked          bool       // Done was called
	stopped         bool
	first           chan struct{} // what the first call returned, if the parent cannot end; closed by stop
	timed           *timed        // nil: nobody waits for the end
}

// timed is the same with a timer. It is apart because few limits need one, and each command has a limit.
type timed struct {
	context.Context
	cancel context.CancelFunc
}

// Deadline is that of the parent, or the limit's own if that is earlier.
func (l *limit) Deadline() (time.Time, bool) {
	if end, ok := l.parent().Deadline(); ok && end.Before(l.end) {
		return end, true
	}
	return l.end, true
}

// parent is what the limit ends with. It is not used for the values of the context, because that would allocate.
func (l *limit) parent() context.Context {
	if l.lasts {
		return context.Background()
	}
	return l.Context
}

// Done is as the type's comment says.
func (l *limit) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.looked || l.stopped {
		return l.waitLocked()
	}
	l.looked = true
	if done := l.parent().Done(); done != nil {
		return done
	}
	l.first = make(chan struct{}) // nil would say that the limit does not end either
	return l.first
}

// wait returns a channel that closes at the end. It starts the timer.
func (l *limit) wait() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waitLocked()
}

func (l *limit) waitLocked() <-chan struct{} {
	if l.timed == nil {
		l.timed = new(timed)
		l.timed.Context, l.timed.cancel = context.WithDeadline(l.parent(), l.end)
	}
	if l.stopped {
		l.timed.cancel()
	}
	return l.timed.Done()
}

// Err looks at the clock, and does not wait for the timer.
func (l *limit) Err() error {
	if err := l.parent().Err(); err != nil {
		return err
	}
	if time.Until(l.end) <= 0 {
		return context.DeadlineExceeded
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return context.Canceled
	}
	return nil
}

// stop ends it, as the cancel function of a context does.
func (l *limit) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	l.stopped = true
	if l.timed != nil {
		l.timed.cancel()
	}
	if l.first != nil {
		close(l.first)
	}
}

// spent reports whether the limit has ended by its own time, and not by the parent.
func (l *limit) spent() bool {
	if time.Until(l.end) > 0 {
		return false
	}
	end, ok := l.parent().Deadline()
	return !errors.Is(l.parent().Err(), context.Canceled) && (!ok || end.After(l.end))
}

// isSpent reports whether a context has ended because the retry budget is spent.
func isSpent(ctx context.Context) bool {
	if l, ok := ctx.(*limit); ok {
		return l.spent()
	}
	return errors.Is(context.Cause(ctx), ErrBudget)
}
