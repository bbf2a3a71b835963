package holdfast

import (
	"context"
	"slices"
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

// ownerOf returns the owner that ctx carries, or a fresh one, which will use c.
func ownerOf(ctx context.Context, c *Client) *owner {
	if o, ok := ctx.Value(ownerKey{}).(*owner); ok {
		return o
	}
	o := newOwner()
	o.ids = append(o.ids, ownerID{c, c.newOwnerID()})
	return o
}

// enter returns the owner's grant of a lock. If there is none it makes one for the request, which has to get it, or end it.
func (o *owner) enter(b *Base, r *request) *grant {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.IndexFunc(o.grants, func(g *grant) bool { return g.base.client == b.client && g.base.key == b.key }); i >= 0 {
		return o.grants[i]
	}
	i := slices.IndexFunc(o.ids, func(known ownerID) bool { return known.client == b.client })
	if i < 0 {
		i = len(o.ids)
		o.ids = append(o.ids, ownerID{b.client, b.client.newOwnerID()})
	}
	g := newGrant(b, o, o.ids[i].id, r)
	o.grants = append(o.grants, g)
	return g
}

// drop forgets a grant that ended. If stray is set, a command that carried the owner's id may still arrive at the server
// some time; the id is then not used for another grant, so that it cannot touch one.
func (o *owner) drop(g *grant, stray bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.grants = slices.DeleteFunc(o.grants, func(other *grant) bool { return other == g })
	if !stray || control.FreshOwner.Off() {
		return
	}
	o.ids = slices.DeleteFunc(o.ids, func(known ownerID) bool { return known.id == g.id })
}
