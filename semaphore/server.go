package semaphore

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/fair"
	"github.com/holdfast-go/holdfast/internal/remote"
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
	case lua.IsError(err, "HOLDFAST_PERMITS"):
		return errs.Both(errs.ErrInvalid, errs.Reworded(tooMany(err.Error())+"; ask for fewer, or raise their number with SetPermits", err))
	default:
		return remote.Explain(err, k.Name, "a semaphore", k.Ends, k.Token, k.Queue, k.Places, k.Wants, k.Counts)
	}
}

// refusal is what the script says of one who asks for more permits than there are.
var refusal = regexp.MustCompile(`(?s)HOLDFAST_PERMITS (\d+) permits were asked for, and the semaphore .* has (\d+)`)

// tooMany reads like "n is 4, and the semaphore has 3 permits".
func tooMany(text string) string {
	n := refusal.FindStringSubmatch(text)
	switch {
	case n == nil:
		return strings.TrimPrefix(text, "HOLDFAST_PERMITS ")
	case n[2] == "1":
		return fmt.Sprintf("n is %s, and the semaphore has 1 permit", n[1])
	}
	return fmt.Sprintf("n is %s, and the semaphore has %s permits", n[1], n[2])
}
