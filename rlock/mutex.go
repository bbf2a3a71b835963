// Package rlock is a reentrant lock on Redis: Redisson's RLock for Go, on the same keys, so that Go and Java services can
// share a lock.
//
// What it promises is in the comment of package holdfast. Not promised: an order among waiters of different processes
// (whoever asks first after a release gets the lock; within a process waiters are served first come, first served), and
// that TryLock lets waiters go first.
//
// Cost: a lock and its unlock are one round trip each, and nothing else, when nobody else wants the name.
//
// # Hand-off
//
// Where several goroutines of a client want a name, Unlock hands the lock to the one that has waited longest, without asking the
// server. Each is a holder like any other, with an owner, a context and a greater fencing token of its own; only the hash
// may show an earlier owner for a tenth of a second. Every 10 ms the client looks whether others listen for a
// release, and if so gives the lock up and lets each of them go first. So processes take turns: who waits in another one waits for
// 10 ms and for the work of the holder at that moment, and for as long again for each other process that waits. (A preference, by
// 2 ms each time, and no promise: a process that is slower than that misses its turn.) Where the server cannot tell who
// listens (a cluster of Redis 6, or no permission to ask) the lock is given up every 10 ms.
//
// A lock is not handed on when renewals fail (half of the lease is left to the server), to or from a holder with a lease of
// its own length or without renewal, and by or to who asked for it with [holdfast.NoHandoff].
package rlock

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

// TryLock is Lock without waiting: if another owner holds the lock it returns [holdfast.ErrNotAcquired] at once.
func (m *Mutex) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("try"); err != nil {
		return nil, err
	}
	return m.base.TryLock(ctx, opts...)
}

// State asks the server who holds the lock, in one round trip. Waiters is -1: this kind keeps no queue in Redis.
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
		return &holdfast.Error{Op: op, Kind: kindName, Err: fmt.Errorf("%w: zero Mutex; make one with rlock.New",
			holdfast.ErrInvalid)}
	}
	return nil
}
