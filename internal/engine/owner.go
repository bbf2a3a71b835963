package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// owner is who holds a lock: what a goroutine is to Redisson. It is data and not a goroutine:
// contexts carry it.
type owner struct {
	mu  sync.Mutex // guards the rest; taken before a grant's, and never held over a network call
	ids []ownerID  // as which it is known to Redis, one for each client and kind of lock
	// What it holds or tries to get: most owners have one or two, a list; what is beyond fewGrants
	// is found by its lock.
	grants []*grant
	more   map[lockKey]*grant

	// Room for what nearly every owner has, one of each, so that the two lists cost no allocation.
	oneID    [1]ownerID
	oneGrant [1]*grant
}

// fewGrants is how many are looked through one by one.
const fewGrants = 8

// lockKey is a lock as an owner knows it.
type lockKey struct {
	client *Client
	key    queue.Key
}

func newOwner() *owner {
	o := &owner{}
	o.ids, o.grants = o.oneID[:0], o.oneGrant[:0]
	return o
}

// ownerID is for one kind of lock: another kind's scripts do not know what this one's hash stands
// for, so it must not be taken for theirs because it has their owner, and be released or granted
// once more.
type ownerID struct {
	client *Client
	kind   string
	id     string
}

type ownerKey struct{}

// WithOwner returns a context with a new owner of its own.
func WithOwner(ctx context.Context) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithValue(ctx, ownerKey{}, newOwner())
}

// ownerOf returns the owner that ctx carries, or a fresh one, which will use b. It is always a fresh
// one where nobody re-enters.
func ownerOf(ctx context.Context, b *Lock) *owner {
	if o, ok := ctx.Value(ownerKey{}).(*owner); ok && !b.traits.NoReentry {
		return o
	}
	o := newOwner()
	o.ids = append(o.ids, ownerID{b.Client, b.Key.Kind, b.Client.NewOwnerID()})
	return o
}

// enter returns the owner's grant of a lock. If there is none it makes one for the request, which
// has to get it, or end it. It refuses a name that the owner holds by another kind.
func (o *owner) enter(b *Lock, r *request) (*grant, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.grants) > 0 {
		if g, err := o.againLocked(b); g != nil || err != nil {
			return g, err
		}
	}
	g := newGrant(b, o, o.idLocked(b), r)
	if len(o.grants) < fewGrants {
		o.grants = append(o.grants, g)
	} else {
		o.addLocked(g)
	}
	return g, nil
}

// againLocked is for an owner that has grants: of this lock perhaps, or of the name by another
// kind. (Not a part of enter: what most callers do not need would take a part of the stack of each
// that waits, when it is small still.)
func (o *owner) againLocked(b *Lock) (*grant, error) {
	if g := o.findLocked(lockKey{b.Client, b.Key}); g != nil {
		ended, spent := g.isOver()
		if !ended {
			return g, nil
		}
		o.dropLocked(g, spent) // it was lost, and what follows that is still to be done
	}
	if kind := o.otherKindLocked(b); kind != "" {
		return nil, errs.Invalid("this owner holds %q as %s, and a lock is re-entered by its own kind only; use one kind for a name, or a "+
			"context with another owner", b.Key.Name, kind)
	}
	return nil, nil
}

func (o *owner) addLocked(g *grant) {
	if o.more == nil {
		o.more = make(map[lockKey]*grant)
	}
	o.more[lockKey{g.base.Client, g.base.Key}] = g
}

// idLocked is as which the owner is known to Redis as a holder of this kind of lock.
func (o *owner) idLocked(b *Lock) string {
	i := slices.IndexFunc(o.ids, func(known ownerID) bool {
		return known.client == b.Client && known.kind == b.Key.Kind

	})
	if i < 0 {
		i = len(o.ids)
		o.ids = append(o.ids, ownerID{client: b.Client, kind: b.Key.Kind})
	}
	if o.ids[i].id == "" {
		o.ids[i].id = b.Client.NewOwnerID()
	}
	return o.ids[i].id
}

// otherKindLocked is as which other kind the owner holds the name, in the same keys; empty if it
// does not. Of locks on other servers than the client's own that cannot be told: it may have the
// others of them.
func (o *owner) otherKindLocked(b *Lock) string {
	if b.Key.Servers != "" {
		return ""
	}
	for _, known := range o.ids {
		if known.client != b.Client || known.kind == b.Key.Kind {
			continue
		}
		if g := o.findLocked(lockKey{b.Client, queue.Key{Kind: known.kind, Name: b.Key.Name}}); g != nil && g.isLive() {
			return known.kind
		}
	}
	return ""
}

func (o *owner) findLocked(key lockKey) *grant {
	for _, g := range o.grants {
		if g.base.Client == key.client && g.base.Key == key.key {
			return g
		}
	}
	return o.more[key]
}

// drop forgets a grant that ended. If spent is set, a command that carried the owner's id may still
// arrive at the server some time, or the hash still has it; the id is then not used for another
// grant, so that nothing can be taken for that one's.
func (o *owner) drop(g *grant, spent bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropLocked(g, spent)
}

func (o *owner) dropLocked(g *grant, spent bool) {
	if i := slices.Index(o.grants, g); i >= 0 {
		o.grants = slices.Delete(o.grants, i, i+1)
	} else if key := (lockKey{g.base.Client, g.base.Key}); o.more[key] == g {
		if delete(o.more, key); len(o.more) == 0 {
			o.more = nil // a map does not shrink
		}
	}
	if !spent {
		return
	}
	for i := range o.ids {
		if o.ids[i].id == g.id {
			o.ids[i].id = "" // the next one is made when it is needed
		}
	}
}
