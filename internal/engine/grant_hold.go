package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/held"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// The methods by which a grant is the [possession] of its holds.

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
	w := g.wish.Load()
	if w == nil {
		g.wish.CompareAndSwap(nil, newWish())
		w = g.wish.Load()
	}
	g.mu.Lock()
	t := g.tenure
	g.mu.Unlock()
	if t.isWanted() || g.front && g.base.Client.queue.Waiting(g.base.Key) > 0 { // before it asked
		w.come()
	}
	return w.came
}

// company is the client, if what it sends can travel together.
func (g *grant) company() *Client { return g.base.Company() }

// forgo is [possession.forgo].
func (g *grant) forgo() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.holds) <= 1 {
		g.atLeast = 0
	}
}

// look ends a hold whose lease is over by the clock.
func (g *grant) look(h *Hold) {
	t, dog := g.tenure, g.base.Dog
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
	until, t := g.until, g.tenure
	g.mu.Unlock()
	if !until.IsZero() {
		return until
	}
	return g.base.Dog.Deadline(&t.watch)
}
