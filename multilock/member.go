package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// member is one of the locks.
type member struct {
	locker  holdfast.Locker
	lock    *engine.Lock // the lock itself; nil if the locker did not reveal it
	kind    string
	name    string
	address string // empty: not known
}

// identifyAll identifies all lockers, with the members of multilocks in their place. With an error it returns the
// members up to the refused one, for the error's name.
func identifyAll(lockers []holdfast.Locker) (all []member, err error) {
	if len(lockers) == 0 {
		return nil, fmt.Errorf("%w: no locks; give at least one", holdfast.ErrInvalid)
	}
	for i, l := range lockers {
		if inner, ok := l.(*Mutex); ok && inner != nil && inner.err == nil && len(inner.members) > 0 {
			all = append(all, inner.members...)
			continue
		}
		one, err := identify(l)
		all = append(all, one)
		if err != nil {
			return all, fmt.Errorf("lock %d: %w", i+1, err)
		}
	}
	return all, nil
}

// identify asks a locker which lock it is.
func identify(l holdfast.Locker) (member, error) {
	if l == nil {
		return member{}, fmt.Errorf("%w: it is nil; leave it out, or make one with rlock.New", holdfast.ErrInvalid)
	}
	var locks []*engine.Lock
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	h, err := l.TryLock(ended, engine.IdentifyLock(func(b *engine.Lock) { locks = append(locks, b) }))
	if err == nil { // it did not pass on what it was given
		err = h.Unlock(context.Background())
		return member{}, fmt.Errorf("%w: %T locked under a context that had ended; pass context and options on (%w)",
			holdfast.ErrInvalid, l, err)
	}
	one := member{locker: l, name: l.Name()}
	if of := (*holdfast.Error)(nil); errors.As(err, &of) {
		one.kind = of.Kind
	}
	switch {
	case one.kind == kindName && len(locks) > 0:
		return one, fmt.Errorf("%w: it is a multilock in a %T; give the members of it", holdfast.ErrInvalid, l)
	case len(locks) > 0:
		// Its own name, whatever a type that wraps it calls it: the order has to be the same where it
		// is wrapped and where it is not.
		one.lock, one.name, one.address = locks[0], locks[0].Name(), locks[0].Where()
	case errors.Is(err, holdfast.ErrInvalid):
		return one, err
	}
	return one, nil
}

// accepts returns why the member refuses a call before anything is sent.
func (m *member) accepts(ctx context.Context, opts []holdfast.Option) error {
	if m.lock == nil {
		return nil
	}
	if err := m.lock.Accepts(ctx, opts); err != nil {
		return fmt.Errorf("%s %s: %w", m.kind, printable.Quote(m.name), err)
	}
	return nil
}

// granted checks what a call of the member has returned. A type outside this library may return neither.
func (m *member) granted(h *holdfast.Hold, err error) (*engine.Hold, error) {
	if h == nil && err == nil {
		err = fmt.Errorf("%w: %T returned neither a hold nor an error; return one of them", holdfast.ErrInvalid, m.locker)
	}
	return (*engine.Hold)(h), err
}

// arrange puts the members into the order in which they are taken, each once. The order must be the same in
// every process, so it does not depend on the clients' ids, which differ.
func arrange(given []member) (members []member, err error) {
	slices.SortStableFunc(given, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind), cmp.Compare(a.address, b.address))
	})
	for _, one := range given {
		again := false
		for _, other := range members {
			same, err := one.collides(other)
			if err != nil {
				return nil, err
			}
			again = again || same
		}
		if !again {
			members = append(members, one)
		}
	}
	return members, nil
}

// collides reports whether two members are one lock, and refuses those that would wait for each
// other.
func (m *member) collides(other member) (same bool, err error) {
	a, b := m.lock, other.lock
	switch {
	case m.name != other.name || a == nil || b == nil:
		return false, nil
	case a.Same(b) && a.Again():
		return true, nil
	case a.Same(b):
		err = fmt.Errorf("%s %s is given twice, and two of its owners could wait for each other; a multilock takes one, so get more by its Acquire", m.kind, printable.Quote(m.name))
	case a.Shares(b) && m.kind == other.kind:
		err = fmt.Errorf("two sides of %s %s are given, which exclude each other; give the one that writes", m.kind, printable.Quote(m.name))
	case a.Shares(b):
		err = fmt.Errorf("%s is given as %s and as %s, which exclude each other; use one kind for a name", printable.Quote(m.name), other.kind, m.kind)
	case m.address == other.address && m.address != "":
		err = fmt.Errorf("%s at %s is given by way of two clients, and would wait for itself; use one client", printable.Quote(m.name), m.address)
	case a.Meets(b):
		err = fmt.Errorf("%s is given as %s and as %s, which exclude each other at a server that both ask; use one of them, or another name",
			printable.Quote(m.name), other.kind, m.kind)
	default:
		return false, nil
	}
	return false, fmt.Errorf("%w: %w", holdfast.ErrInvalid, err)
}

// batches groups the members that are acquired together: members of one client that follow each other. So no member
// is held that comes later in the order than the next one to wait for.
func batches(members []member) (all [][]member) {
	for i := range members {
		n := len(all) - 1
		if i > 0 && members[i].client() != nil && members[i].client() == members[i-1].client() {
			all[n] = append(all[n], members[i])
			continue
		}
		all = append(all, members[i:i+1:i+1])
	}
	return all
}

// client is the client whose server grants the member; nil if it is not known, or if several servers do: their
// votes would be split by members that are requested at once.
func (m *member) client() *engine.Client {
	if m.lock == nil {
		return nil
	}
	return m.lock.Home()
}

// sharesPipeline reports whether commands about the member can travel with others.
func (m *member) sharesPipeline() bool { return m.lock != nil && m.lock.CombiningClient() != nil }
