// Package fairlock is a reentrant lock on Redis that serves first come, first served: Redisson's fair lock for Go, on the same
// keys.
//
// What every kind of lock promises is in the comment of package holdfast. Beyond that:
//
//   - Grants go in the order in which requests arrived at the server, whatever client they came from. Nobody passes a waiter,
//     neither by TryLock nor by asking at the right moment. Only re-entry does not wait.
//   - The lock is handed on by the release itself, to the first waiter, whose client is told by a message. Nobody else wakes.
//   - A waiter that leaves, or dies, holds up nobody for long. Whoever cannot be reached when the lock is handed on is passed
//     over; a waiter that was reached and does not renew (its process is stopped, or its machine gone without a word) costs one
//     claim, two seconds. Places that nobody keeps end after 15 s.
//
// Not promised: an order between requests that are under way to the server at one moment; the place of a waiter whose connection
// for messages is down at the moment of a hand-over (it keeps its place for the next one); the place of a process that is
// stopped for longer than 15 s; and, where Redisson's waiters are in the queue too, anything that Redisson does not keep to:
// its deadlines go by the clocks of its clients, and its dead waiters hold up those behind them until their deadline.
//
// Cost: a lock and its unlock are one script each, also where others wait. While somebody waits, a client sends a script a
// second for each name.
package fairlock

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// Mutex is a lock by name. Any number of Mutexes, in any number of processes, with one name on one Redis are the same
// lock. Make one with [New]; it holds no resources and needs no closing. All methods are safe for concurrent use.
type Mutex struct {
	base *holdfast.Base
}

var _ holdfast.Locker = (*Mutex)(nil)

// New makes the lock called name on a client. opts are defaults for each acquisition. Nothing is sent; an invalid name,
// option or client is returned as an error by the first operation.
//
// The name is the key in Redis. If it contains a brace it must contain a hash tag, as in "orders:{42}".
func New(c *holdfast.Client, name string, opts ...holdfast.Option) *Mutex {
	return &Mutex{base: holdfast.NewBase(c, newProtocol(name), opts...)}
}

// Name is the name of the lock in Redis.
func (m *Mutex) Name() string {
	if m == nil || m.base == nil {
		return ""
	}
	return m.base.Name()
}

// Lock waits until the lock is granted. Under a context that carries the owner of a hold of this lock it re-enters. The
// context bounds the wait, and so does [holdfast.Wait].
//
// Errors: [holdfast.ErrNotAcquired] if the wait was over first, and then errors.Is is true for the cause of the context
// too; [holdfast.ErrClosed]; [holdfast.ErrInvalid]; [holdfast.ErrLost] if the hold to be re-entered is lost;
// [holdfast.ErrNotReplicated], only with [holdfast.WithReplicas]; else an error of Redis. After any error the lock is not held,
// and what the server may have granted is given back.
func (m *Mutex) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("lock"); err != nil {
		return nil, err
	}
	return m.base.Lock(ctx, opts...)
}

// TryLock is Lock without waiting: if another owner holds the lock, or waits for
// it, it returns [holdfast.ErrNotAcquired] at once: it passes nobody, also where the lock is free at the moment, and not even
// those who have died, until their places end.
func (m *Mutex) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("try"); err != nil {
		return nil, err
	}
	return m.base.TryLock(ctx, opts...)
}

// State asks the server who holds the lock, in one round trip. Waiters are those in the queue at
// the server, of all clients.
func (m *Mutex) State(ctx context.Context) (holdfast.State, error) {
	if err := m.check("state"); err != nil {
		return holdfast.State{}, err
	}
	return m.base.State(ctx)
}

// ForceUnlock frees the lock of whoever holds it, and wakes the waiters. It returns whether there was a holder. A holder
// of this client is told at once, others at their next renewal, within a third of their lease: until then they work on.
// Use it for a lock whose holder is known to be dead; only fencing tokens protect from one who is not.
//
// It asks who holds the lock and then releases that owner's, so that it forces out one holder and not the next one too
// when a reply is lost and the release is sent again.
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) {
	if err := m.check("force unlock"); err != nil {
		return false, err
	}
	return m.base.ForceUnlock(ctx)
}

// check lets a zero or nil Mutex fail with an error and not with a panic.
func (m *Mutex) check(op string) error {
	if m == nil || m.base == nil {
		return &holdfast.Error{Op: op, Kind: kindName, Err: fmt.Errorf("%w: zero Mutex; make one with fairlock.New",
			holdfast.ErrInvalid)}
	}
	return nil
}
