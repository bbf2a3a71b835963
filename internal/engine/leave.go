package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// HoldAtLeast is what users know as holdfast.HoldAtLeast.
func HoldAtLeast(d time.Duration) Option {
	return func(c *Settings) {
		if d < minAtLeast || d > maxLease {
			c.Refuse(errs.Invalid("HoldAtLeast is %v; use at least %v and at most %v, such as half of the period, or leave it out",
				d, minAtLeast, maxLease))
		}
		c.atLeast = d
	}
}

const minAtLeast = time.Millisecond

// Stands is for how long the lock is asked for.
func (c *Settings) Stands() time.Duration { return max(c.Lease, c.atLeast) }

// rest is for how long the lock has to stay taken. Zero: it may be released. Elapsed time counts
// less than it seems: this clock may be faster than the server's.
func (g *grant) rest() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.restLocked()
}

func (g *grant) restLocked() time.Duration {
	if !g.staysLocked() {
		return 0
	}
	past := time.Since(g.granted)
	return max(g.atLeast-(past-past/watchdog.Drift), 0)
}

// staysLocked reports whether the lock ends by itself, and is not to be given back before.
func (g *grant) staysLocked() bool { return g.live && g.atLeast > 0 && !control.Stay.Off() }

// leaveTaken is the last unlock of a lock that has to stay. The lock ends by itself. What got no
// answer, or may come later and take the lock anew, is given back in the background when its time
// is over. A command without an answer can make the end earlier than without it, never before its
// time. What was sent before it and comes later, such as a renewal, does not find this owner any
// more: leave.lua gives the field another name, see [remote.OwnerIn].
func (g *grant) leaveTaken(ctx context.Context) error {
	o := g.entry.Release(ctx, g.rest)
	// which drops the owner id: the hash may have it still, and it must not be taken for a grant
	g.finish(errs.ErrReleased, false)
	switch {
	case o.Err != nil:
		return g.base.Uncertain(o)
	case o.Reply.Status == lua.Gone && !o.Stray:
		return errs.Both(errs.ErrLost, g.notHeld())
	case o.Reply.Text(0) != "":
		return unannounced(g.base, o.Reply.Text(0))
	}
	return nil
}
