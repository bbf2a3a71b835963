package holdfast

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/internal/control"
)

// owner is who holds a lock: what a goroutine is to Redisson. It is data and not a goroutine: contexts carry it.
type owner struct {
	mu     sync.Mutex // guards the rest; never held over a network call
	ids    []ownerID  // as which it is known to Redis, one per client
	grants []*grant   // what it holds or tries to get; few, so a list

	// Room for what nearly every owner has, one of each, so that the two lists cost no allocation.
	oneID    [1]ownerID
	oneGrant [1]*grant
}

func newOwner() *owner {
	o := &owner{}
	o.ids, o.grants = o.oneID[:0], o.oneGrant[:0]
	return o
}

type ownerID struct {
	client *Client
	id     string
}

type ownerKey struct{}

// WithOwner returns a context with a new owner of its own. Lock calls under it, one after another or from several
// goroutines, are the same owner's: they re-enter. Without it every Lock competes under a fresh owner, and only what is
// called under the [Hold.Context] re-enters.
func WithOwner(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownerKey{}, newOwner())
}

// ownerOf returns the owner that ctx carries, or a fresh one.
func ownerOf(ctx context.Context) *owner {
	if o, ok := ctx.Value(ownerKey{}).(*owner); ok {
		return o
	}
	return newOwner()
}

// enter returns the owner's grant of a lock. If there is none it makes one, and first is true: the caller has its turn
// and has to get it from the server, or end it.
func (o *owner) enter(b *Base) (g *grant, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, g := range o.grants {
		if g.base.client == b.client && g.base.key == b.key {
			return g, false
		}
	}
	g = newGrant(b, o, o.idLocked(b.client))
	o.grants = append(o.grants, g)
	return g, true
}

func (o *owner) idLocked(c *Client) string {
	for _, known := range o.ids {
		if known.client == c {
			return known.id
		}
	}
	id := c.newOwnerID()
	o.ids = append(o.ids, ownerID{c, id})
	return id
}

// drop forgets a grant that ended. If stray is set, a command that carried the owner's id may still arrive at the server
// some time; the id is then not used for another grant, so that it cannot touch one.
func (o *owner) drop(g *grant, stray bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, other := range o.grants {
		if other == g {
			o.grants = append(o.grants[:i], o.grants[i+1:]...)
			break
		}
	}
	if !stray || control.FreshOwner.Off() {
		return
	}
	for i, known := range o.ids {
		if known.client == g.base.client && known.id == g.id {
			o.ids = append(o.ids[:i], o.ids[i+1:]...)
			break
		}
	}
}
