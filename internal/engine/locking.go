package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/panics"
)

// Lock waits for the lock, for as long as the context and [Wait] allow.
func (b *Lock) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return b.lock(&request{ctx: ctx}, opts)
}

// TryLock asks once.
func (b *Lock) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return b.lock(&request{ctx: ctx, once: true}, opts)
}

// lock gets a hold for the owner that the context carries. If the owner already has a grant of the
// lock, the hold is added to that grant. Otherwise the owner gets a new grant.
func (b *Lock) lock(r *request, opts []Option) (*Hold, error) {
	if !r.heard {
		if err := b.prepare(r, opts); err != nil {
			return nil, panics.Repanic(err)
		}
		if b.Client.observer != nil {
			return b.lockObserved(r) // which comes back here
		}
	}
	r.refusable(b)
	defer r.cancel()
	defer b.Client.watch.Leave(&r.entry)
	r.late = r.ctx.Err() != nil && !r.want.part
	own := ownerOf(r, b)
	for {
		g, failed := own.enter(b, r)
		if failed != nil {
			return nil, panics.Repanic(failed)
		}
		at := g.queueUp(r)
		// Whoever waits does that here, and not further down: ten thousand may, and their stacks are
		// as deep as this. For the same reason the rest is in functions of its own.
		if r.place != nil {
			g.await(0)
			r.place.Wait(r.wait)
		} else if at != nil {
			g.await(0)
			at.Stand()
		}
		if h, err := g.acquire(r, at); !errors.Is(err, errAgain) {
			if err == nil {
				g.arrived(r)
			}
			return h, r.raise(b, err)
		}
		r.rearm()
	}
}

// lockObserved is lock for a client that somebody observes: one Waiting is followed by one Granted or
// one Refused, also if a hook of go-redis panics. (It is called by lock, and not in its place: a frame
// more would enlarge the stack of every waiter, of clients that nobody observes, too.)
func (b *Lock) lockObserved(r *request) (h *Hold, err error) {
	o, kind, name := b.Client.observer, b.Key.Kind, b.Key.Name
	r.heard = true
	ctx, asked, waits := r.ctx, time.Duration(0), false
	err = errHook
	defer func() {
		if err != nil {
			waited := time.Duration(0)
			if waits {
				waited = sinceStart() - asked
			}
			o.TellRefused(ctx, notify.RefusalEvent{Kind: kind, Name: name, Waited: waited, Err: err})
		}
	}()
	if o.Waiting != nil {
		_, bounded := r.wait.Deadline()
		ctx = o.TellWaiting(r.ctx, notify.WaitEvent{Kind: kind, Name: name, Once: r.once, Bounded: bounded}) // which may end the goroutine
	}
	asked, waits = sinceStart(), true
	if h, err = b.lock(r, nil); err == nil {
		b.granted(ctx, r, h, asked)
	}
	return h, err
}

// granted tells of a grant. If the user's function ends the goroutine, nobody gets the hold: then it is
// given back.
func (b *Lock) granted(ctx context.Context, r *request, h *Hold, asked time.Duration) {
	o, now := b.Client.observer, max(h.since(), asked) // who handed it on may have looked at the clock before this call began
	returned := false
	defer func() {
		h.watch(o.EndNotice(ctx, now))
		if !returned {
			_ = h.GiveBack(context.Background())
		}
	}()
	o.TellGranted(ctx, notify.GrantEvent{
		Kind: b.Key.Kind, Name: b.Key.Name, Owner: h.on.ownerID(), Token: h.token, Count: int(h.depth), How: r.how,
		Waited: now - asked, Contended: r.contended,
	})
	returned = true
}

// raise is the error of a request as users see it; nil for nil.
func (r *request) raise(b *Lock, err error) error {
	if err == nil {
		return nil
	}
	if r.late && (errors.Is(err, errs.ErrUnavailable) || errors.Is(err, errs.ErrNotAcquired)) {
		err = errs.Unasked(b.Over(r.ctx))
	}
	return panics.Repanic(b.selfishly(Under(r.ctx, err)))
}

// errHook is returned when a hook of go-redis panicked, or a function of the user's ended the goroutine.
var errHook = errs.Outage(errors.New("a hook of go-redis panicked, or a function of the user's ended the goroutine"))
