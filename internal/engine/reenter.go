package engine

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// reenter adds a hold to a live grant. The caller has the turn and must not pass it on. reenter
// does that, or leaves it to what goes on in the background.
func (g *grant) reenter(r *request) (*Hold, error) {
	wait := r.wait
	r.how = notify.Reentered
	g.mu.Lock()
	count, lease, renew := len(g.holds)+1, max(g.lease, r.want.Lease), g.renew || r.want.renew
	g.askedForLocked(lease)
	g.mu.Unlock()
	want := g.missing(r)
	o, ok := g.base.Client.session.Call(wait, func(ctx context.Context, failed *atomic.Pointer[error]) remote.Outcome {
		return g.entry.Set(ctx, count, lease, want, failed)
	}, func(o remote.Outcome) { g.resync() })
	if !ok {
		return nil, errs.Outage(errs.WithCause(context.Cause(wait), cmp.Or(o.Err, g.base.backend.Unreached()))) // settle passes the turn on
	}
	switch {
	case o.Err != nil && (o.Stray || want.N > 0):
		g.base.Client.tasks.Go(g.resync)
		return nil, g.acquireFailed(wait, o)
	case o.Err != nil:
		g.endOp()
		return nil, g.acquireFailed(wait, o)
	}
	defer g.endOp()
	if o.Reply.Status == lua.Gone {
		return nil, g.gone()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended != nil {
		return nil, g.ended
	}
	if !g.base.Dog.Confirm(&g.tenure.watch, o.Sent, lease, renew) {
		return nil, errs.ErrLost // its time is over; the watchdog is about to say so
	}
	h := newHold(g.base.Client.observer)
	h.on, h.parent, h.token, h.renewed = g, r.ctx, g.token, renew
	h.depth = int32(count) //nolint:gosec // G115: nobody re-enters so often
	g.holds = append(g.holds, h)
	g.lease, g.renew = lease, renew
	if want.N > 0 {
		g.confirmed = r.want.Replicas
	}
	return h, nil
}

// join gets a hold in a grant that the owner already has. It returns errAgain if the grant ends
// meanwhile.
func (g *grant) join(r *request) (*Hold, error) {
	if cause := g.base.Over(r.wait); cause != nil {
		return nil, g.left(cause)
	}
	if r.once && !g.isLive() {
		return nil, g.left(nil) // the owner itself is waiting for it, in another goroutine
	}
	err := g.beginOp(r.wait)
	switch {
	case err != nil && g.isLive(): // something else of its is under way
		return nil, errs.Outage(errs.WithCause(err, errs.WithCause(remote.ErrSilent, g.base.backend.Unreached())))
	case err != nil:
		return nil, g.left(err)
	case g.isLive():
		return g.reenter(r)
	}
	g.endOp()
	return nil, errAgain
}

// missing returns the replicas that a re-entry has to wait for.
func (g *grant) missing(r *request) remote.Replicas {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.confirmed.Cover(r.want.Replicas) {
		return remote.Replicas{}
	}
	return r.want.Replicas
}
