package multilock

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/operr"
)

const kindName = "multilock"

var ops = operr.Kind{Name: kindName}

// Mutex is several locks as one. Make one with [New]; it holds no resources and needs no closing. All
// methods are safe for concurrent use.
type Mutex struct {
	name    string
	members []member   // in the order in which they are taken
	parcels [][]member // the same: what is asked for together
	err     error      // why it cannot be used
}

var _ holdfast.Locker = (*Mutex)(nil)

// New makes the lock that is all of the locks. The package comment says which members are refused.
// New sends nothing. If a member is refused, the first operation returns the error.
func New(locks ...holdfast.Locker) *Mutex {
	m := &Mutex{}
	var given []member
	given, m.err = identifyAll(locks)
	if m.err == nil {
		m.members, m.err = arrange(given)
	}
	named := m.members
	if m.err != nil {
		named = given
	}
	names := make([]string, 0, len(locks))
	for _, one := range named {
		names = append(names, one.name)
	}
	m.name = strings.Join(names, ", ")
	m.parcels = batches(m.members)
	return m
}

// Name is the names of the members, in the order in which Lock takes them: "orders:1, stock:7". If
// members are refused, Name has the names that New saw before.
func (m *Mutex) Name() string {
	if m == nil {
		return ""
	}
	return m.name
}

// Lock waits until all members are granted. The context bounds the wait, and [holdfast.Wait] bounds
// it as a whole. A Wait among the defaults of a member bounds the wait for that member. Lock passes
// each option to each member, and refuses it if one of them does.
//
// Errors, of the first member that is not granted; the text names it:
//   - [holdfast.ErrNotAcquired] if the wait ended first and somebody else has that member;
//   - [holdfast.ErrUnavailable] if Redis did not say who has it;
//   - [holdfast.ErrLost] if a member was lost during the wait for another one, or if a hold to be
//     re-entered is lost;
//   - [holdfast.ErrClosed] if the client of a member was closed;
//   - [holdfast.ErrInvalid] for a bad argument, before anything is sent;
//   - otherwise an error of Redis.
//
// With the first two, errors.Is is also true for the cause of the context. They are also the errors
// if the context ends between two members.
//
// After any error Lock has given back the members that were granted. If their servers did not
// answer that, errors.Is is also true for [holdfast.ErrUnavailable], and the client repeats the
// release in the background. If a server did not answer before, Lock waits for the release no
// longer than the context and Wait allow, and at least 50 ms.
func (m *Mutex) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	h, err := m.take(ctx, opts, false)
	return h, m.fail("lock", err)
}

// TryLock is Lock without waiting. If another owner holds one of the members, TryLock returns
// [holdfast.ErrNotAcquired] at once, and holds none.
func (m *Mutex) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	h, err := m.take(ctx, opts, true)
	return h, m.fail("try", err)
}

// check refuses a call before anything is sent.
func (m *Mutex) check(ctx context.Context, opts []holdfast.Option) error {
	switch {
	case m == nil || len(m.members) == 0 && m.err == nil:
		return fmt.Errorf("%w: nil or zero Mutex; make one with multilock.New", holdfast.ErrInvalid)
	case m.err != nil:
		return m.err
	case ctx == nil:
		return fmt.Errorf("%w: ctx is nil; use context.Background()", holdfast.ErrInvalid)
	}
	for _, one := range m.members {
		if err := one.accepts(ctx, opts); err != nil {
			return err
		}
	}
	return nil
}

// take gets all members or none. A call with Wait(0) tries once.
func (m *Mutex) take(ctx context.Context, opts []holdfast.Option, once bool) (*holdfast.Hold, error) {
	if err := m.check(ctx, opts); err != nil {
		return nil, err
	}
	t := newTaking(ctx, m, opts, once)
	defer t.takeTurn(ctx)()
	defer t.finish() // also if a hook of go-redis panics
	for _, parcel := range m.parcels {
		if err := t.take(parcel); err != nil {
			return nil, t.giveUp(err)
		}
	}
	h := engine.Join(kindName, m.name, t.have...)
	if why := h.Ended(); why != nil {
		return nil, t.giveUp(why)
	}
	t.keep()
	return (*holdfast.Hold)(h), nil
}

// fail wraps the error of an operation in a [holdfast.Error]. It returns nil for nil.
func (m *Mutex) fail(op string, err error) error { return ops.Fail(op, m.Name(), err) }
