package engine

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/held"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// reenter adds a hold to a live grant. The caller has the turn and must not pass it on. reenter
// does that, or leaves it to what goes on in the background.
func (a *Acquisition) reenter() (*Hold, error) {
	g := a.grant
	wait := a.wait
	a.how = event.Reentered
	g.mu.Lock()
	count, lease, renew := len(g.holds)+1, max(g.lease, a.want.Lease), g.renew || a.want.renew
	g.askedForLocked(lease)
	g.mu.Unlock()
	want := g.missing(a.want.Replicas)
	o, ok := a.base.Client.session.Call(wait, func(ctx context.Context, failed *atomic.Pointer[error]) remote.Outcome {
		return g.entry.Set(ctx, remote.SharedBudget{}, count, lease, want, failed)
	}, func(o remote.Outcome) { g.resync() })
	if !ok {
		return nil, errs.Outage(errs.WithCause(context.Cause(wait), cmp.Or(o.Err, a.base.backend.Unreached()))) // resync passes the turn on
	}
	switch {
	case o.Err != nil && (o.MayArriveLate || want.N > 0):
		a.base.Client.tasks.Go(g.resync)
		return nil, a.acquireFailed(wait, o)
	case o.Err != nil:
		g.turn.pass()
		return nil, a.acquireFailed(wait, o)
	}
	defer g.turn.pass()
	if o.Reply.Status == lua.Gone {
		return nil, g.gone()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended != nil {
		return nil, g.ended
	}
	if !a.base.Dog.Confirm(&g.serverLease.watch, o.Sent, lease, renew) {
		return nil, errs.ErrLost // its time is over; the watchdog is about to say so
	}
	h := newHold(a.base.Client.observer)
	h.on, h.parent, h.token, h.renewed = g, a.ctx, g.token, renew
	h.depth = int32(count) //nolint:gosec // G115: nobody re-enters so often
	g.holds = append(g.holds, h)
	g.lease, g.renew = lease, renew
	if want.N > 0 {
		g.confirmed = a.want.Replicas
	}
	return h, nil
}

// join gets a hold in the grant that the owner already has. It returns errAgain if the grant ends
// meanwhile.
func (a *Acquisition) join() (*Hold, error) {
	g := a.grant
	if cause := a.base.Over(a.wait); cause != nil {
		return nil, a.joinFailed(cause)
	}
	if a.once && !g.isLive() {
		return nil, g.asked.waitError(nil) // the owner itself is waiting for it, in another goroutine
	}
	if err := g.turn.take(a.wait); err != nil { // something else of its is under way
		return nil, a.joinFailed(err)
	}
	if g.isLive() {
		return a.reenter()
	}
	g.turn.pass()
	return nil, errAgain
}

// joinFailed is the error of a re-entry whose wait ended before it was sent. If the owner has the lock, nobody else is in
// the way.
func (a *Acquisition) joinFailed(cause error) error {
	if errors.Is(cause, errs.ErrClosed) || !a.grant.isLive() {
		return a.grant.asked.waitError(cause) // which knows for how long the owner has waited
	}
	why := errUnderWay
	if a.silent() {
		why = a.base.backend.NoAnswer()
	}
	return errs.Outage(errs.WithCause(cause, why))
}

// errUnderWay is why a re-entry, or a longer lease, could not be asked for in the time of its caller.
var errUnderWay = errors.New("another operation of the same owner is still under way")

// missing returns the replicas that a re-entry has to wait for, of those that it wants.
func (g *grant) missing(want remote.Replicas) remote.Replicas {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.confirmed.Cover(want) {
		return remote.Replicas{}
	}
	return want
}

// extend lengthens the lease.
func (g *grant) extend(ctx context.Context, lease time.Duration) error {
	if err := g.turn.take(ctx); err != nil { // something else of its is under way
		return Under(ctx, errs.Outage(errs.WithCause(err, errUnderWay)))
	}
	defer g.turn.pass()
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
	if !ok || o.MayArriveLate {
		g.entry.noteUnanswered()
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
	if !g.base.Dog.Confirm(&g.serverLease.watch, o.Sent, lease, renew) {
		return errs.ErrLost // its time is over; the watchdog is about to say so
	}
	g.lease = lease
	return nil
}

// The methods by which a grant is the [holdOwner] of its holds.

// ownerID is the owner's id at the server.
func (g *grant) ownerID() string { return g.id }

func (g *grant) of() queue.Key { return g.base.Key }

// newContext makes a context that carries the token, and the owner if the lock can be re-entered.
func (g *grant) newContext(h *Hold) (*holdContext, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(g.tell(h.parent, h))
	return &holdContext{ctx, h}, cancel
}

// tell puts the token into a context, and the owner if the lock can be re-entered.
func (g *grant) tell(ctx context.Context, h *Hold) context.Context {
	if !g.base.traits.NoReentry {
		ctx = context.WithValue(ctx, ownerKey{}, g.owner)
	}
	return held.With(ctx, g.base.Key.Name, g.base.Client, h.token)
}

// wanted is closed when somebody waits in this client, or another client has called. There is one
// channel for all holds of the grant.
func (g *grant) wanted() <-chan struct{} {
	w := g.wantedBy.Load()
	if w == nil {
		g.wantedBy.CompareAndSwap(nil, newWantedSignal())
		w = g.wantedBy.Load()
	}
	g.mu.Lock()
	t := g.serverLease
	g.mu.Unlock()
	if t.isWanted() || g.front && g.base.Client.queue.Waiting(&g.base.Key) > 0 { // before it asked
		w.fire()
	}
	return w.fired
}

// combiningClient is [holdOwner.combiningClient].
func (g *grant) combiningClient() *Client { return g.base.CombiningClient() }

// forgo is [holdOwner.forgo].
func (g *grant) forgo(h *Hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.holds) == 1 && g.holds[0] == h {
		g.atLeast = 0
	}
}

// releasesOnError is [holdOwner.releasesOnError]. What the outermost hold asked for counts.
func (g *grant) releasesOnError() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.onError
}

// look ends a hold whose lease is over by the clock.
func (g *grant) look(h *Hold) {
	t, dog := g.serverLease, g.base.Dog
	if !dog.Over(&t.watch) || dog.Expire(&t.watch) {
		return
	}
	// The watchdog is about to report the loss to the grant. This hold need not wait for that.
	if dog.Over(&t.watch) {
		_ = h.end(errs.Both(errs.ErrLost, g.inFull(dog.Reason(&t.watch))))
	}
}

// deadline is the time until which the grant is trusted.
func (g *grant) deadline() time.Time {
	g.mu.Lock()
	until, t := g.until, g.serverLease
	g.mu.Unlock()
	if until != 0 {
		return start.Add(until)
	}
	return g.base.Dog.Deadline(&t.watch)
}
