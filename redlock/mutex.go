// Package redlock is a reentrant lock on several independent Redis masters: who has the votes of a majority holds it. It goes on
// working while a minority of them is dead, and a master that fails takes no lock with it.
//
// Sources: "Distributed Locks with Redis" (the Redlock algorithm) of the Redis documentation; M. Kleppmann, "How to do distributed
// locking", for what it cannot do.
//
// All masters are asked in parallel. The lock is held on a majority, and can be trusted for the lease less 1 % and 2 ms, counted from
// before the first was asked; what a minority granted is given back at once. The watchdog renews on all, and a majority is enough; a
// master that comes back is asked to take the hold back. The fencing token is greater than every one that a majority knew before, and
// a majority knows it before the grant counts.
//
// # Masters
//
// The clients are one for each master: single servers without replicas, or with ones that never take over by themselves. N masters stand
// the failure of (N-1)/2, rounded down: five stand two, three stand one. An even number is allowed and buys nothing: four stand
// one as three do, and of four three have to agree. One master is a lock like rlock, with a token and a restart rule of its own. Two
// clients that reach the same server are refused.
//
// The holds belong to the first client: close that one first, or all.
//
// A master that was started less than a lease ago does not vote if it may have granted the lock before and lost its data: if the
// client knew an earlier process of it, if the other masters are older, or if its vote would decide against a holder. The lease is the
// longest of that of the acquisition and of [holdfast.Options].Lease, so give all who use a lock the same. [holdfast.TrustRestarts]
// turns the rule off, for masters that write each change to the disk before they answer. It needs the permission for INFO. Masters
// that are all young, and that the client meets for the first time, it takes for new ones; so new masters can be used at once.
//
// # Hand-off
//
// Within a process the lock is handed from goroutine to goroutine as that of package rlock is, each with a greater token of its own, for 10 ms
// at a time while others wait. The masters know all of them by the name of the first, and so does [holdfast.Hold.Owner].
// [holdfast.NoHandoff] turns it off.
//
// # Not promised
//
// That two processes never are inside. Where clocks jump, where all masters lose their data at once, or where a process pauses for
// longer than the lease, they can be: a quorum narrows the window that a single master's failure opens, and the fencing token, checked by the
// resource, closes it. Nor an order among waiters, of which those of one process are served first come, first served; nor that TryLock
// is granted if several ask for a free lock at the same time, for their votes may be split; nor anything if the masters are not
// independent.
package redlock

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// Mutex is a lock by name on a set of masters. Any number of Mutexes, in any number of processes, with one name on the same masters are the
// same lock. Make one with [New]; it holds no resources and needs no closing. All methods are safe for concurrent use.
type Mutex struct {
	base *holdfast.Base
}

var _ holdfast.Locker = (*Mutex)(nil)

// New makes the lock called name on the masters of these clients, in any order. opts are defaults for each acquisition; among them may
// be [holdfast.MasterTimeout] and [holdfast.TrustRestarts]. Nothing is sent; an invalid name, option or list is returned as an
// error by the first operation.
//
// The name is the key in Redis. If it contains a brace it must contain a hash tag, as in "orders:{42}".
func New(clients []*holdfast.Client, name string, opts ...holdfast.Option) *Mutex {
	return &Mutex{base: holdfast.NewQuorumBase(clients, newProtocol(name), opts...)}
}

// Name is the name of the lock in Redis.
func (m *Mutex) Name() string {
	if m == nil || m.base == nil {
		return ""
	}
	return m.base.Name()
}

// Lock waits until a majority of the masters grants the lock. Under a context that carries the owner of a hold of this lock it re-enters. The
// context bounds the wait, and so does [holdfast.Wait].
//
// Errors: [holdfast.ErrNotAcquired] if the wait was over first, and then errors.Is is true for the cause of the context
// too; [holdfast.ErrClosed]; [holdfast.ErrInvalid]; [holdfast.ErrLost] if the hold to be re-entered is lost. Where too few masters answer
// for longer than [holdfast.Options].RetryBudget, the error says how many did and what each said. After any error the lock is not
// held, and what masters may have granted is given back.
func (m *Mutex) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("lock"); err != nil {
		return nil, err
	}
	return m.base.Lock(ctx, opts...)
}

// TryLock is Lock without waiting: if another owner holds the lock, or several ask for it at once, it returns
// [holdfast.ErrNotAcquired].
func (m *Mutex) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("try"); err != nil {
		return nil, err
	}
	return m.base.TryLock(ctx, opts...)
}

// check lets a zero or nil Mutex fail with an error and not with a panic.
func (m *Mutex) check(op string) error {
	if m == nil || m.base == nil {
		return &holdfast.Error{Op: op, Kind: kindName, Err: fmt.Errorf("%w: zero Mutex; make one with redlock.New",
			holdfast.ErrInvalid)}
	}
	return nil
}
