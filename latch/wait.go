package latch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/panics"
)

// rest is for how long nobody looks at a latch of which nothing is heard. A message that was lost
// with its connection is made up for at once; this is for one that was never sent, as by Redisson's
// delete.
const rest = 30 * time.Second

var errWaited = errors.New("waited as long as Wait allows")

// Wait waits until the latch is open. It returns nil at once if the latch is open already, or was never
// set. The context bounds the wait, and so does [holdfast.Wait]. All other options are refused.
//
// Errors:
//   - [holdfast.ErrNotAcquired] if the wait ended first; the text says how much is left to count;
//   - [holdfast.ErrUnavailable] if Redis did not say how much is left. An outage of more than
//     holdfast.Options.RetryBudget ends the wait; call Wait again;
//   - [holdfast.ErrClosed] if the client was closed;
//   - [holdfast.ErrInvalid] for a bad argument;
//   - otherwise an error of Redis.
//
// With the first two, errors.Is is also true for the cause of the context.
func (l *Latch) Wait(ctx context.Context, opts ...holdfast.Option) error {
	if err := l.checkLength("wait"); err != nil {
		return err
	}
	cfg := engine.WithoutHold(l.stay)
	if err := cfg.AddWithoutHold(kindName, engine.GivenWait, opts); err != nil {
		return l.fail("wait", err)
	}
	if err := l.asker.MayAsk(ctx); err != nil {
		return l.fail("wait", err)
	}
	if d, ok := engine.Waits(opts); ok {
		if d == 0 {
			return l.fail("wait", l.once(ctx))
		}
		limited, cancel := context.WithTimeoutCause(ctx, d, errWaited)
		defer cancel()
		ctx = limited
	}
	return l.fail("wait", l.wait(ctx))
}

// once is a wait that looks and does not wait. A caller that leaves before the answer is told what is known of the server.
func (l *Latch) once(ctx context.Context) error {
	begun := time.Now()
	o, err := l.ask(ctx)
	switch left := o.Reply.LatchLook().Left; {
	case err != nil && o.Err == nil && ctx.Err() != nil:
		return errs.Both(l.unknown(ctx, begun), context.Cause(ctx))
	case err != nil || left == 0:
		return err
	default:
		return notOpen(left)
	}
}

// wait joins the waiters of this client for the latch.
func (l *Latch) wait(ctx context.Context) error {
	c := l.asker.Client
	g := engine.Attached(c, func(*engine.Client) *gates { return &gates{of: map[string]*gate{}} })
	w := g.join(l)
	select {
	case <-w.done:
		return panics.Repanic(w.err)
	case <-ctx.Done():
	}
	return panics.Repanic(g.leave(ctx, l, w))
}

// listenError is the error of waiters whose client cannot listen; nil for nil.
func (l *Latch) listenError(why error) error {
	switch {
	case why == nil:
		return nil
	case l.asker.Client.Context().Err() != nil:
		return errs.ErrClosed
	}
	return errs.Both(errors.New("cannot listen for the end; permit this user to subscribe to "+l.channel()), why)
}

// gates are the latches that callers of a client wait for.
type gates struct {
	mu sync.Mutex // guards the rest and what gates and waiters have; never held over a network call
	of map[string]*gate
}

// gate is a latch that callers of a client wait for. Its goroutine asks for all of them; it ends when none
// waits.
type gate struct {
	waiting []*waiter
	joined  chan struct{} // has a token when a waiter has joined, or the last one has left
}

// waiter is one call of Wait.
type waiter struct {
	left  int  // as last known
	known bool // left has been set
	begun time.Time
	err   error
	done  chan struct{} // closed when the latch is open, or err says why the gate has stopped asking
}

// join adds a waiter. A question that was begun before does not count for it: the latch may have been set
// since.
func (g *gates) join(l *Latch) *waiter {
	w := &waiter{begun: time.Now(), done: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.of[l.keys.Name]
	if at == nil {
		at = &gate{joined: make(chan struct{}, 1)}
		g.of[l.keys.Name] = at
		l.asker.Client.Tasks().Go(func() { g.watch(l, at) })
	}
	at.waiting = append(at.waiting, w)
	at.kick()
	return w
}

func (at *gate) kick() {
	select {
	case at.joined <- struct{}{}:
	default:
	}
}

// leave takes a waiter out whose wait has ended with a context, and returns its error: nil if the latch
// was opened in this moment.
func (g *gates) leave(ctx context.Context, l *Latch, w *waiter) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-w.done:
		return w.err
	default:
	}
	at := g.of[l.keys.Name] // there is one for as long as the waiter is in it
	at.waiting = slices.DeleteFunc(at.waiting, func(other *waiter) bool { return other == w })
	if len(at.waiting) == 0 {
		at.kick()
	}
	cause := context.Cause(ctx)
	if !w.known {
		return errs.Both(l.unknown(ctx, w.begun), cause)
	}
	return errs.Both(notOpen(w.left), cause)
}

// batch is who waits now. Without anybody the gate is given up.
func (g *gates) batch(name string, at *gate) []*waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(at.waiting) == 0 {
		delete(g.of, name)
	}
	return slices.Clone(at.waiting)
}

// tell tells some what a look has shown.
func (g *gates) tell(at *gate, some []*waiter, left int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range some {
		w.left, w.known, w.err = left, err == nil, err
	}
	if left > 0 && err == nil {
		return
	}
	told := make(map[*waiter]bool, len(some))
	for _, w := range some {
		told[w] = true
	}
	at.waiting = slices.DeleteFunc(at.waiting, func(w *waiter) bool {
		if told[w] {
			close(w.done)
		}
		return told[w]
	})
	if len(at.waiting) == 0 {
		at.kick()
	}
}

// lookFor is look for others. A panic of a hook of go-redis is an error, and goes on in those who wait:
// here nobody could recover from it, and it would end the process.
func (l *Latch) lookFor(ctx context.Context) (left int, lasts time.Duration, err error) {
	defer panics.Into(&err)
	return l.query(ctx)
}

// watch looks at a latch for all who wait for it, until nobody does.
func (g *gates) watch(l *Latch, at *gate) {
	c := l.asker.Client
	sub := c.Hub().Subscribe(l.channel())
	defer sub.Close()
	timer := time.NewTimer(rest)
	defer timer.Stop()
	for {
		some := g.batch(l.keys.Name, at)
		if len(some) == 0 {
			return
		}
		left, lasts, err := l.lookFor(c.Context())
		if err == nil && left > 0 {
			err = l.listenError(sub.Err())
		}
		g.tell(at, some, left, err)
		next := rest
		if lasts >= 0 {
			next = min(next, lasts+time.Millisecond) // a key lives through its last millisecond
		}
		timer.Reset(engine.Rest(sub, next))
		select {
		case <-sub.Wake():
		case <-at.joined:
		case <-timer.C:
		case <-c.Context().Done():
		}
	}
}
