package engine

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/errs"
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
	if err := b.prepare(r, opts); err != nil {
		return nil, Raise(err)
	}
	r.refusable(b)
	defer r.cancel()
	r.late = r.ctx.Err() != nil
	own := ownerOf(r, b)
	for {
		g, failed := own.enter(b, r)
		if failed != nil {
			return nil, Raise(failed)
		}
		at := g.queueUp(r)
		// Whoever waits does that here, and not further down: ten thousand may, and their stacks are
		// as deep as this. For the same reason the rest is in functions of its own.
		if r.place != nil {
			r.place.Wait(r.wait)
		} else if at != nil {
			at.Stand()
		}
		if h, err := g.acquire(r, at); !errors.Is(err, errAgain) {
			return h, r.raise(b, err)
		}
	}
}

// raise is the error of a request as users see it; nil for nil.
func (r *request) raise(b *Lock, err error) error {
	if err == nil {
		return nil
	}
	if r.late && errors.Is(err, errs.ErrUnavailable) && !errors.Is(err, errs.ErrNotAcquired) {
		err = errs.Unasked(b.Over(r.ctx))
	}
	return Raise(b.selfishly(Under(r.ctx, err)))
}
