package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// holdContext is the context of a hold. It is ended by whoever ends the hold; where that is the
// watchdog, a moment may pass before it runs, after the process stood still. So whoever asks it
// looks at the clock first, and ends the hold if its time is over.
//
// All else it leaves to the context in it, which package context made: Done is that one's, and so
// is what Value says of the way up. So derived contexts hang from it as they would without this
// type, without a goroutine each, and context.Cause finds the cause.
type holdContext struct {
	context.Context
	hold *Hold
}

// holdKey is under which a context says which hold's it is.
type holdKey struct{}

func holdOf(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}

// Done looks at the clock and then is that of context.Context.
func (c *holdContext) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

// Err looks at the clock and then is that of context.Context.
func (c *holdContext) Err() error {
	c.look()
	return c.Context.Err()
}

// Value also looks at the clock when package context asks for the context that can be cancelled:
// for context.Cause, and when a context is derived. Its key is a pointer to an int; who else uses
// such a key loses nothing.
func (c *holdContext) Value(key any) any {
	switch key.(type) {
	case *int:
		c.look()
	case holdKey:
		return c.hold
	}
	return c.Context.Value(key)
}

// look ends the hold if its deadline has passed. Nobody may call it, nor the context at all, with a
// mutex of this package's or the watchdog's held.
func (c *holdContext) look() {
	if c.Context.Err() != nil {
		return
	}
	c.hold.on.look(c.hold)
}

// Under adds to an error of what was called under the context of a hold that has ended, and failed
// for that, which hold that was: the error names the lock that was asked for, and that one may be
// free.
func Under(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil {
		return err
	}
	for h := holdOf(ctx); h != nil; h = holdOf(h.parent) {
		ended := h.reason()
		for _, why := range []error{errs.ErrLost, errs.ErrReleased, errs.ErrClosed} {
			if errors.Is(ended, why) && errors.Is(cause, why) && errors.Is(err, why) {
				key := h.on.of()
				return fmt.Errorf("the hold of %s %s, under whose context it was called, has ended: %w", key.Kind,
					printable.Quote(key.Name), err)
			}
		}
	}
	return err
}
