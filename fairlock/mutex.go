// Package fairlock is a reentrant lock on Redis that serves first come, first served: Redisson's
// fair lock for Go, on the same keys.
//
// The comment of package holdfast says what every kind of lock promises. Beyond that:
//
//   - Grants go in the order in which requests arrived at the server, whatever client they came
//     from. Nobody passes a waiter, neither by TryLock nor by asking at the right moment. Only
//     re-entry does not wait.
//   - The release itself hands the lock on to the first waiter, whose client learns of it by a
//     message. Nobody else wakes.
//   - A waiter that leaves, or dies, holds up nobody for long. A waiter that cannot be reached when
//     the lock is handed on is passed over. A waiter that was reached and does not renew (its
//     process is stopped, or its machine is gone without notice) costs one claim, two seconds. The
//     other waiters of its client cost nothing: they are passed over until the client is heard from
//     again. Places that nobody keeps end after 15 s. Where Redisson's waiters are in front of such
//     places, these last longer by what Redisson's waiters may take off them (each its wait, from
//     300 s to an hour), and end within 15 s after those have gone.
//
// # Not promised
//
//   - An order between requests that are under way to the server at one moment.
//   - The place of a waiter whose connection for messages is down at the moment of a hand-over. It
//     keeps its place for the next hand-over if fewer than 128 waiters are in that position.
//   - The place of a process that is stopped for longer than 15 s.
//   - Where Redisson's waiters are in the queue too, anything that Redisson does not keep to. Its
//     deadlines go by the clocks of its clients. Its dead waiters hold up those behind them for two
//     seconds each, or until their deadline where nobody of this library waits.
//
// Redisson 4.7 takes the time of tryLock(time, unit) for milliseconds in the queue, whatever the
// unit. With SECONDS its own waiters lose their places within milliseconds. If the lock is handed
// to one just then, those behind it wait for a poll, a second. With NANOSECONDS each of its grants
// takes days off all places behind it. These places are then lost and taken anew by a poll. Use
// MILLISECONDS there.
//
// # Cost
//
// A lock and its unlock are one script each, also where others wait. What a script does at the
// server is bounded, however many wait or are dead. While somebody waits, a client sends a script a
// second for each name, or one in five seconds if several other clients are in front of all of its
// own waiters. Where 128 waiters in front cannot be reached, these lose their places.
//
// A goroutine that waits costs about 5 KiB, its stack included, however many wait: they leave it to
// a few goroutines of the client to ask. (The first of a client that asks for a name does so
// itself, and keeps the stack that it took.)
package fairlock

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
)

// Mutex is a lock by name. Any number of Mutexes, in any number of processes, with one name on one
// Redis are the same lock. Make one with [New]; it holds no resources and needs no closing. All
// methods are safe for concurrent use.
type Mutex struct {
	base *engine.Lock
}

var _ holdfast.Locker = (*Mutex)(nil)

// New makes the lock called name on a client. opts are defaults for each acquisition. Nothing is
// sent; an invalid name, option or client is returned as an error by the first operation.
//
// The name is the key in Redis. If it contains a brace it must contain a hash tag, as in
// "orders:{42}".
func New(c *holdfast.Client, name string, opts ...holdfast.Option) *Mutex {
	return &Mutex{base: newLock((*engine.Client)(c), newProtocol(name), opts)}
}

// Name is the name of the lock in Redis.
func (m *Mutex) Name() string {
	if m == nil || m.base == nil {
		return ""
	}
	return m.base.Name()
}

// Lock waits until the lock is granted. Under a context that carries the owner of a hold of this
// lock it re-enters. The context bounds the wait, and so does [holdfast.Wait].
//
// Errors:
//   - [holdfast.ErrNotAcquired] if the wait was over first and somebody else has the lock;
//   - [holdfast.ErrUnavailable] if Redis did not say who has it;
//   - [holdfast.ErrClosed] if the client was closed;
//   - [holdfast.ErrInvalid] for a bad argument;
//   - [holdfast.ErrLost] if the hold to be re-entered is lost;
//   - [holdfast.ErrNotReplicated], only with [holdfast.WithReplicas];
//   - otherwise an error of Redis.
//
// With the first two, errors.Is is true for the cause of the context too. After any error the lock
// is not held, and what the server may have granted is given back.
func (m *Mutex) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("lock"); err != nil {
		return nil, err
	}
	h, err := m.base.Lock(ctx, opts...)
	return (*holdfast.Hold)(h), m.fail("lock", err)
}

// TryLock is Lock without waiting. If another owner holds the lock, or waits for it, TryLock
// returns [holdfast.ErrNotAcquired] at once. It passes nobody who can be reached, even while the
// lock is free.
func (m *Mutex) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("try"); err != nil {
		return nil, err
	}
	h, err := m.base.TryLock(ctx, opts...)
	return (*holdfast.Hold)(h), m.fail("try", err)
}

// State asks the server who holds the lock, in one round trip. Waiters are those in the queue at
// the server, of all clients.
func (m *Mutex) State(ctx context.Context) (holdfast.State, error) {
	if err := m.check("state"); err != nil {
		return holdfast.State{}, err
	}
	s, err := m.base.State(ctx)
	return holdfast.State(s), m.fail("state", err)
}

// ForceUnlock frees the lock of whoever holds it, and wakes the waiters. It returns whether there
// was a holder. A holder of this client learns of it at once. Other holders learn of it at their
// next renewal, within a third of their lease, and work on until then. Use it for a lock whose
// holder is known to be dead. Only fencing tokens protect from a holder who is not.
//
// It asks who holds the lock and then releases that owner's hold. So it forces out one holder, and
// not the next one too, when a reply is lost and the release is sent again.
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) {
	if err := m.check("force unlock"); err != nil {
		return false, err
	}
	forced, err := m.base.ForceUnlock(ctx)
	return forced, m.fail("force unlock", err)
}

// check lets a zero or nil Mutex fail with an error and not with a panic.
func (m *Mutex) check(op string) error {
	if m == nil || m.base == nil {
		return &holdfast.Error{Op: op, Kind: kindName,
			Err: fmt.Errorf("%w: nil or zero Mutex; make one with fairlock.New",
				holdfast.ErrInvalid)}
	}
	return nil
}

// fail is the error of an operation, nil if there is none.
func (m *Mutex) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &holdfast.Error{Op: op, Kind: kindName, Name: m.Name(), Err: err}
}
