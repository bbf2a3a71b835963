package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// joined is what a joined hold stands on.
type joined struct {
	key   queue.Key
	holds []*Hold
	given atomic.Bool // Unlock has been called
}

var _ possession = (*joined)(nil)

// Join makes one hold of several, of at least one. Errors call it by a kind and a name of its own.
// The holds belong to it from then on: nobody else unlocks them. Take each under the context of the
// one before. Then they have one owner, and each is re-entered under the context of the joined one.
//
// The joined hold ends when the first of them ends, for the same reason. The others last until
// Unlock, which gives all back, the last one first, also if it fails for some. Its error says of
// each which lock it is, and so does that of Extend. Each may take as long as it does alone.
//
// Its context derives from that of the last hold, and carries the tokens of all by the names of
// their locks. It has no token itself, so [Hold.Token] is 0: the tokens of different names do not
// follow each other, and none of them, nor their sum, orders two holders of all. Its owner is that of
// the first hold, and its deadline the earliest.
func Join(kind, name string, holds ...*Hold) *Hold {
	j := &joined{key: queue.Key{Kind: kind, Name: name}, holds: slices.Clone(holds)}
	return &Hold{on: j, parent: j.last().parent, depth: 1}
}

func (j *joined) last() *Hold { return j.holds[len(j.holds)-1] }

func (j *joined) ownerID() string { return j.holds[0].Owner() }

func (j *joined) of() queue.Key { return j.key }

func (j *joined) deadline() (earliest time.Time) {
	for i, one := range j.holds {
		if d := one.Deadline(); i == 0 || d.Before(earliest) {
			earliest = d
		}
	}
	return earliest
}

func (j *joined) unlock(ctx context.Context, h *Hold) error {
	j.follow(h) // its context may have ended by that of one, and nobody has said so here yet
	earlier := h.end(errs.ErrReleased)
	if j.given.Swap(true) {
		return earlier
	}
	var failed []error
	for _, one := range slices.Backward(j.holds) {
		failed = append(failed, one.called(one.on.unlock(ctx, one)))
	}
	return errors.Join(failed...)
}

func (j *joined) extend(ctx context.Context, lease time.Duration) error {
	var failed []error
	for _, one := range j.holds {
		err := one.reason()
		if err == nil {
			err = one.on.extend(ctx, lease)
		}
		failed = append(failed, one.called(err))
	}
	return errors.Join(failed...)
}

// called says which hold's an error is.
func (h *Hold) called(err error) error {
	if err == nil {
		return nil
	}
	kind, name := h.Of()
	return fmt.Errorf("%s %q: %w", kind, name, err)
}

// newContext makes a context that ends with any of theirs, whichever derives from which. That of a
// hold may also end because the context of its Lock call has: then the hold lasts, and so does the
// joined one.
func (j *joined) newContext(h *Hold) (context.Context, context.CancelCauseFunc) {
	ctx := j.last().Context()
	for _, one := range j.holds[:len(j.holds)-1] {
		ctx = one.on.tell(ctx, one)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stops := make([]func() bool, len(j.holds))
	for i, one := range j.holds {
		stops[i] = context.AfterFunc(one.Context(), func() {
			j.follow(h)
			cancel(context.Cause(one.Context()))
		})
	}
	return &holdContext{ctx, h}, func(cause error) {
		for _, stop := range stops {
			stop()
		}
		cancel(cause)
	}
}

func (j *joined) tell(ctx context.Context, _ *Hold) context.Context {
	for _, one := range j.holds {
		ctx = one.on.tell(ctx, one)
	}
	return ctx
}

// wanted is not known: each of the holds has a channel of its own.
func (j *joined) wanted() <-chan struct{} { return nil }

func (j *joined) look(h *Hold) {
	for _, one := range j.holds {
		if one.reason() == nil {
			one.on.look(one)
		}
	}
	j.follow(h)
}

// follow ends the joined hold if one of them has ended.
func (j *joined) follow(h *Hold) {
	for _, one := range j.holds {
		if why := one.reason(); why != nil {
			_ = h.end(why)
			return
		}
	}
}
