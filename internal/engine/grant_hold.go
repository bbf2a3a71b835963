package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/held"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// What a grant is to the holds that stand on it.

// ownerID is as the server knows it.
func (g *grant) ownerID() string { return g.id }

func (g *grant) of() queue.Key { return g.base.Key }

// newContext makes a context that carries the owner, if that is one who re-enters, and the token.
func (g *grant) newContext(h *Hold) (context.Context, context.CancelCauseFunc) {
	ctx := h.parent
	if !g.base.traits.NoReentry {
		ctx = context.WithValue(ctx, ownerKey{}, g.owner)
	}
	ctx, cancel := context.WithCancelCause(g.tell(ctx, h))
	return &holdContext{ctx, h}, cancel
}

// tell has a context carry the token.
func (g *grant) tell(ctx context.Context, h *Hold) context.Context {
	return held.With(ctx, g.base.Key.Name, g.base.Client, h.token)
}

// look ends a hold whose lease is over by the clock.
func (g *grant) look(h *Hold) {
	t, dog := g.tenure, g.base.Dog
	if !dog.Over(&t.watch) || dog.Expire(&t.watch) {
		return
	}
	// the watchdog has it and is about to say so, to the grant; this hold need not wait for that
	if dog.Over(&t.watch) {
		_ = h.end(errs.Both(errs.ErrLost, g.inFull(dog.Reason(&t.watch))))
	}
}

// deadline is until when it is trusted.
func (g *grant) deadline() time.Time {
	g.mu.Lock()
	until, t := g.until, g.tenure
	g.mu.Unlock()
	if !until.IsZero() {
		return until
	}
	return g.base.Dog.Deadline(&t.watch)
}
