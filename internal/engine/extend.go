package engine

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// extend lengthens the lease.
func (g *grant) extend(ctx context.Context, lease time.Duration) error {
	if err := g.beginOp(ctx); err != nil { // something else of its is under way
		return Under(ctx, errs.Outage(errs.WithCause(err, errs.WithCause(remote.ErrSilent, g.base.backend.Unreached()))))
	}
	defer g.endOp()
	g.mu.Lock()
	ended, renew := g.ended, g.renew
	g.askedForLocked(lease)
	g.mu.Unlock()
	if ended != nil {
		return ended
	}
	// A late command does no harm, because a renewal never shortens the lease. So nothing has to be
	// undone when the caller leaves early.
	o, ok := g.base.Client.session.Call(ctx, func(ctx context.Context, failed *atomic.Pointer[error]) remote.Outcome {
		return g.entry.Extend(ctx, lease, failed)
	}, func(remote.Outcome) {})
	if !ok || o.Stray {
		g.entry.noteUnheard()
	}
	switch {
	case !ok:
		return errs.Outage(errs.Both(errs.ErrUncertain, errs.WithCause(context.Cause(ctx), cmp.Or(o.Err, g.base.backend.Unreached()))))
	case o.Err != nil:
		return g.base.Uncertain(o)
	case o.Reply.Status == lua.Gone:
		return g.gone()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended != nil {
		return g.ended
	}
	if !g.base.Dog.Confirm(&g.tenure.watch, o.Sent, lease, renew) {
		return errs.ErrLost // its time is over; the watchdog is about to say so
	}
	g.lease = lease
	return nil
}
