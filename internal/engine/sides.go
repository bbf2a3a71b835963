package engine

import (
	"cmp"
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/kind"
)

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
	return g.id, b.selfish()
}

// selfish is [Traits.Upgrade].
func (b *Lock) selfish() error {
	return b.traits.Upgrade
}

// refusedByItself reports whether an owner was refused one side of a lock by its own hold of another
// one, whose answer is on its way: what is granted to the same name, and is wanted. (What nobody wants
// any more is given back, and worth waiting for.)
func (g *grant) refusedByItself(by string) bool {
	if by != g.id || g.base.selfish() == nil {
		return false
	}
	o := g.owner
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.siblingLocked(g.base)
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
	if s := o.siblingLocked(g.base); s != nil && s.asked.refuse != nil && !s.isLive() {
		s.asked.refuse(cmp.Or(s.base.selfish(), errAgain))
	}
}

// refusable is a wait that can be ended by [grant.endSibling], where that may be necessary: if the
// caller's context carries an owner, and not the one that the request makes.
func (r *request) refusable(b *Lock) {
	if _, carried := r.ctx.Value(ownerKey{}).(*owner); !carried || r.once || !b.traits.Sided {
		return
	}
	r.whole = r.wait
	r.rearm()
	cancel := r.cancel
	r.cancel = func() { r.refuse(nil); cancel() }
}

// rearm is for a request that begins anew: the last attempt's wait may have been ended for that.
func (r *request) rearm() {
	if r.whole != nil && (r.refuse == nil || r.wait.Err() != nil) {
		r.wait, r.refuse = context.WithCancelCause(r.whole)
	}
}

// selfishly is the error of a request that was refused a side of a lock because of the other one that
// its owner has; else err.
func (b *Lock) selfishly(err error) error {
	if why := b.selfish(); why != nil && errors.Is(err, why) {
		return why
	}
	return err
}
