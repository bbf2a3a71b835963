// Package rlock is a reentrant lock on Redis: Redisson's RLock for Go, on the same keys, so that Go
// and Java services can share a lock.
//
// The comment of package holdfast says what every lock promises. This package does not promise an
// order among waiters of different processes: whoever asks first after a release gets the lock.
// Within a process waiters are served first come, first served. Nor does it promise that TryLock
// lets waiters go first.
//
// Cost: when nobody else wants the name, a lock and its unlock are one round trip each, and nothing
// else.
//
// # Hand-off
//
// Where several goroutines of a client want a name, Unlock hands the lock to the one that has
// waited longest, without asking the server. Each of them is a holder like any other, with an
// owner, a context and a greater fencing token of its own. Only the hash may show an earlier owner,
// for a tenth of a second.
//
// Every 10 ms the client looks whether others listen for a release. If so, it gives the lock up and
// lets each of them go first. So processes take turns. A waiter in another process waits for 10 ms
// and for the work of the holder at that moment, and for as long again for each other process that
// waits.
//
// Each other process is let go first for 2 ms. A process whose round trips to the server take
// longer than that allows asks for a head start of one and a half round trips, up to 0.1 s. So
// processes up to some 30 ms away take part in the turns. This is a preference and no promise: a
// slower process misses its turn, and processes that do not hand the lock on let nobody go first.
//
// A turn is up to 10 ms of hand-offs in one process, and one grant in a process that has nobody to
// hand the lock to. So near processes have more grants than with [holdfast.NoHandoff]. Where the
// server cannot tell who listens (a cluster of Redis 6, or no permission to ask), the lock is given
// up every 10 ms.
//
// A lock is not handed on
//   - when renewals fail: half of the lease is left to the server;
//   - to or from a holder with a lease of its own length or without renewal;
//   - by or to a holder that asked for the lock with [holdfast.NoHandoff].
package rlock

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
	return &Mutex{base: engine.NewLock((*engine.Client)(c), newProtocol(name), opts...)}
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

// TryLock is Lock without waiting: if another owner holds the lock it returns
// [holdfast.ErrNotAcquired] at once.
func (m *Mutex) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("try"); err != nil {
		return nil, err
	}
	h, err := m.base.TryLock(ctx, opts...)
	return (*holdfast.Hold)(h), m.fail("try", err)
}

// State asks the server who holds the lock, in one round trip. Waiters is -1: this kind keeps no
// queue in Redis.
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
		return &holdfast.Error{Op: op, Kind: kindName, Err: fmt.Errorf("%w: nil or zero Mutex; make one with rlock.New",
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
