package semaphore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/fair"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/lua"
)

// backend is that of a fair lock, for owners of which several hold it at once, and each but once.
type backend struct {
	engine.Backend
	engine.Waiter
	wire *protocol
}

func newLock(c *engine.Client, p *protocol, opts []engine.Option) *engine.Lock {
	b := fair.NewLock(c, p, opts...)
	if b.Err == nil {
		be := b.Backend()
		b.Use(&backend{be, be.(engine.Waiter), p})
	}
	return b
}

// Traits is [engine.Backend.Traits].
func (b *backend) Traits() engine.Traits {
	t := b.Backend.Traits()
	t.Shared, t.NoReentry, t.HandsOff = true, true, false
	t.NoAtLeast = "permits come back when they are unlocked; leave the option out"
	return t
}

// Explain is [engine.Backend.Explain].
func (b *backend) Explain(err error) error {
	switch k := b.wire.keys; {
	case lua.IsError(err, "WRONGTYPE"):
		return errs.Both(fmt.Errorf("the key %s holds something that is not a semaphore, or one of %s, %s, %s, %s and %s something foreign; "+
			"choose another name", printable.Name(k.Name), printable.Name(k.Ends), printable.Name(k.Token), printable.Name(k.Queue),
			printable.Name(k.Places), printable.Name(k.Wants)), err)
	case lua.IsError(err, "HOLDFAST_PERMITS"):
		return errs.Both(errs.ErrInvalid, errs.Both(errors.New("ask for fewer, or raise their number with SetPermits"), tooMany{err}))
	}
	return b.Backend.Explain(err)
}

// tooMany is the server's refusal without the word by which it is told from other errors.
type tooMany struct{ error }

// Error reads like "4 permits were asked for, and the semaphore calls has 3".
func (e tooMany) Error() string { return strings.TrimPrefix(e.error.Error(), "HOLDFAST_PERMITS ") }

func (e tooMany) Unwrap() error { return e.error }
