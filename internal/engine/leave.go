package engine

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/lua"
)

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
