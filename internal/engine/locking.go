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
	defer r.cancel()
	late := r.ctx.Err() != nil
	own := ownerOf(r, b)
	h, err := (*Hold)(nil), errAgain
	for errors.Is(err, errAgain) {
		g, failed := own.enter(b, r)
		if failed != nil {
			return nil, Raise(failed)
		}
		var at Place
		if p := g.queueUp(r); p != nil {
			p.Wait(r.wait) // here, and not further down: see there
		} else if w := b.waiter(); w != nil && g.asked == r && !r.once && w.Crowded() && g.prepare() == nil {
			at = w.Join((*Acquisition)(g))
			at.Stand() // as well
		}
		h, err = g.acquire(r, at)
	}
	if late && errors.Is(err, errs.ErrUnavailable) && !errors.Is(err, errs.ErrNotAcquired) {
		err = errs.Unasked(b.Over(r.ctx))
	}
	if err != nil {
		return nil, Raise(Under(r.ctx, err))
	}
	return h, nil
}
