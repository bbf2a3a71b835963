package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// owner is the holder of locks, as a thread is in Redisson. It is not a goroutine: contexts carry
// it.
type owner struct {
	mu  sync.Mutex // guards the rest; taken before a grant's, and never held over a network call
	ids []ownerID  // its names in Redis, one for each client and kind of lock
	// grants are what the owner holds or tries to get. Most owners have one or two; a grant beyond
	// fewGrants is in more.
	grants []*grant
	more   map[lockKey]*grant
	// chosen says that the caller chose this owner by [WithOwner], and so knows of owners. Set once.
	chosen bool

	// Room for one id and one grant, which is all that nearly every owner has: so the two lists cost
	// no allocation.
	oneID    [1]ownerID
	oneGrant [1]*grant
}

// fewGrants is how many grants are searched one by one.
const fewGrants = 8

// lockKey is a lock as an owner knows it.
type lockKey struct {
	client *Client
	key    queue.Key
}

func newOwner() *owner { return new(owner).init() }

func (o *owner) init() *owner {
	o.ids, o.grants = o.oneID[:0], o.oneGrant[:0]
	return o
}

// ownerID is an owner's name in Redis for one client and one kind of lock, and another one for the
// locks that may be kept. Kinds do not share names
// because their hashes look alike: a script of one kind would take another kind's hash with its
// owner for its own, and release or grant it.
type ownerID struct {
	of     *Lock // any of that client and kind
	called bool  // its client is called by those who are refused
	id     string
}

type ownerKey struct{}

// WithOwner returns a context with a new owner of its own.
func WithOwner(ctx context.Context) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	o := newOwner()
	o.chosen = true
	return context.WithValue(ctx, ownerKey{}, o)
}

// HasOwner reports whether a context carries an owner.
func HasOwner(ctx context.Context) bool {
	_, ok := ctx.Value(ownerKey{}).(*owner)
	return ok
}

// Owned is a context that carries an owner: ctx, or one with a new owner.
func Owned(ctx context.Context) context.Context {
	if _, ok := ctx.Value(ownerKey{}).(*owner); ok {
		return ctx
	}
	return context.WithValue(ctx, ownerKey{}, newOwner())
}

// ownerOf returns the owner that the acquisition's context carries, or a new one that will use its
// lock. Of locks without re-entry it always returns a new one.
func ownerOf(a *Acquisition) *owner {
	b := a.base
	if o, ok := a.ctx.Value(ownerKey{}).(*owner); ok && !b.traits.NoReentry {
		return o
	}
	o := a.newOwner()
	called := a.want.keep > 0
	o.ids = append(o.ids, ownerID{b, called, b.Client.NewOwnerID(called)})
	return o
}

// enter gives an acquisition the owner's grant of a lock. If there is none, it makes one, and the acquisition
// has to get the lock or end the grant. enter refuses a name that the owner holds by another
// kind of lock.
func (o *owner) enter(a *Acquisition) error {
	b := a.base
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.grants) > 0 {
		if g, err := o.againLocked(b); g != nil || err != nil {
			a.grant = g
			return err
		}
	}
	id := o.idLocked(b, a.want.keep > 0)
	if b.traits.Sided {
		if _, err := o.besideLocked(b); err != nil {
			return err
		}
	}
	g := newGrant(o, id, a)
	if len(o.grants) < fewGrants {
		o.grants = append(o.grants, g)
	} else {
		o.addLocked(g)
	}
	a.grant = g
	return nil
}

// againLocked looks for this lock, or for its name by another kind, among the grants of an owner.
// (It is not a part of enter because most callers do not need it: it would enlarge the stack of
// every waiter.)
func (o *owner) againLocked(b *Lock) (*grant, error) {
	if g := o.findLocked(lockKey{b.Client, b.Key}); g != nil {
		ended, spent := g.isOver()
		if !ended {
			return g, nil
		}
		o.dropLocked(g, spent) // the lock was lost, and the grant has not left yet
	}
	if kind := o.otherKindLocked(b); kind != "" {
		return nil, errs.Invalid("this owner holds %s as %s, and a lock is re-entered by its own kind only; use one kind for a name, or a "+
			"context with another owner", printable.Quote(b.Key.Name), kind)
	}
	return nil, nil
}

func (o *owner) addLocked(g *grant) {
	if o.more == nil {
		o.more = make(map[lockKey]*grant)
	}
	o.more[lockKey{g.base.Client, g.base.Key}] = g
}

// idLocked returns the owner's name in Redis for this client and kind of lock.
func (o *owner) idLocked(b *Lock, called bool) string {
	i := slices.IndexFunc(o.ids, func(known ownerID) bool {
		return known.of.Client == b.Client && known.of.Key.Kind == b.Key.Kind && known.called == called
	})
	if i < 0 {
		i = len(o.ids)
		o.ids = append(o.ids, ownerID{of: b, called: called})
	}
	if o.ids[i].id == "" {
		o.ids[i].id = b.Client.NewOwnerID(called)
	}
	return o.ids[i].id
}

// otherKindLocked returns the other kind of lock by which the owner holds the name, in the same
// keys; empty if there is none. Locks on several servers are left out: the servers need not be the
// client's own.
func (o *owner) otherKindLocked(b *Lock) string {
	if b.Key.Servers != "" {
		return ""
	}
	other := func(g *grant) bool {
		key := g.base.Key
		return g.base.Client == b.Client && key.Name == b.Key.Name && key.Kind != b.Key.Kind && key.Servers == "" && g.isLive()
	}
	for _, g := range o.grants {
		if other(g) {
			return g.base.Key.Kind
		}
	}
	for _, known := range o.ids {
		for _, side := range kind.Sides {
			if g := o.more[lockKey{b.Client, queue.Key{Kind: known.of.Key.Kind, Name: b.Key.Name, Side: side}}]; g != nil && other(g) {
				return known.of.Key.Kind
			}
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

// all are the owner's grants, those included that it does not have yet.
func (o *owner) all() []*grant {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := slices.Clone(o.grants)
	for _, g := range o.more {
		list = append(list, g)
	}
	return list
}

// drop forgets a grant that has ended. spent says that a command with the owner's id may still
// arrive at the server, or that the hash still has the id. Then the next grant gets a new id, so
// that nothing of this grant can be taken for the next one's.
func (o *owner) drop(g *grant, spent bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropLocked(g, spent)
}

// spend forgets a name in Redis, so that it is not used again.
func (o *owner) spend(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spendLocked(id)
}

func (o *owner) spendLocked(id string) {
	for i := range o.ids {
		if o.ids[i].id == id {
			o.ids[i].id = "" // the next one is made when it is needed
		}
	}
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
	o.spendLocked(g.id)
}

// siblingLocked returns the owner's grant at another side of the same lock, live or wanted; nil if
// there is none.
func (o *owner) siblingLocked(b *Lock) *grant {
	for _, side := range kind.Sides {
		key := b.Key
		if key.Side = side; key == b.Key {
			continue
		}
		if g := o.findLocked(lockKey{b.Client, key}); g != nil {
			return g
		}
	}
	return nil
}

// beside is the name in Redis by which the owner holds another side of the lock, empty if it has
// none, or why it may not have this side as well.
func (o *owner) beside(b *Lock) (id string, err error) {
	if !b.traits.Sided {
		return "", nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.besideLocked(b)
}

func (o *owner) besideLocked(b *Lock) (id string, err error) {
	if len(o.grants) == 0 {
		return "", nil
	}
	g := o.siblingLocked(b)
	if g == nil || !g.isLive() {
		return "", nil
	}
	return g.id, b.upgradeError()
}

// upgradeError is [Traits.Upgrade].
func (b *Lock) upgradeError() error {
	return b.traits.Upgrade
}

// refusedByItself reports whether an owner was refused one side of a lock by its own hold of another
// one, whose answer is on its way: what is granted to the same name, and is wanted. (What nobody wants
// any more is given back, and worth waiting for.)
func (a *Acquisition) refusedByItself(by string) bool {
	g := a.grant
	if by != g.id || a.base.upgradeError() == nil {
		return false
	}
	o := g.owner
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.siblingLocked(a.base)
	if s == nil || s.id != g.id {
		return false
	}
	over, _ := s.isOver()
	return !over
}

// endSibling ends the wait of an owner for another side of a lock when the grant is live: either it may
// not have that beside the grant, or it need not wait for it any more. Then it asks again, because
// nobody else tells it: to the server, it waited for its own place, and its place in the client's line
// is behind others, who wait for the grant.
func (g *grant) endSibling() {
	if !g.base.traits.Sided {
		return
	}
	o := g.owner
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.siblingLocked(g.base); s != nil && s.asked.early != nil && !s.isLive() {
		s.asked.early.refuse(cmp.Or(s.base.upgradeError(), errAgain))
	}
}

// withUpgradeError is the error of an acquisition that was refused a side of a lock because of the other one that
// its owner has; else err.
func (b *Lock) withUpgradeError(err error) error {
	if why := b.upgradeError(); why != nil && errors.Is(err, why) {
		return why
	}
	return err
}
