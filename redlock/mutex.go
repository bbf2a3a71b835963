// Package redlock is a reentrant lock on several independent Redis masters. Whoever has the votes
// of a majority holds it. The lock goes on working while a minority of the masters is dead, and a
// master that fails takes no lock with it.
//
// Sources: "Distributed Locks with Redis" (the Redlock algorithm) of the Redis documentation; M.
// Kleppmann, "How to do distributed locking", for what the algorithm cannot do.
//
// All masters are asked in parallel. The lock is held on a majority. It can be trusted for the
// lease less 1 % and 2 ms, counted from before the first master was asked. What a minority granted
// is given back at once.
//
// The watchdog renews on all masters, and a majority is enough. A master that comes back is asked
// to take the hold back. A master that has forgotten the hold, with its data or alone, does not
// count for a lease. Where a majority may have granted the lock to another owner since, the hold is
// lost, even if that owner has gone.
//
// The fencing token is greater than every token that a majority knew before, and a majority knows
// it before the grant counts.
//
// # Masters
//
// The clients are one for each master. A master is a single server without replicas, or with
// replicas that never take over by themselves. N masters survive the failure of (N-1)/2, rounded
// down: five survive two, three survive one. An even number is allowed and buys nothing: four
// survive one as three do, and three of the four have to agree. One master is a lock like rlock,
// with a token and a restart rule of its own. Two clients that reach the same server are refused.
//
// The holds belong to the first client: close that client first, or close all. A list with the same
// clients in another order means the same locks. Their holds belong to the first client of the list
// that was used first.
//
// A master that was started less than a lease ago does not vote if it may have granted the lock
// before and lost its data: if the client knew an earlier process of it, if the other masters are
// older, or if its vote would decide against a holder. The lease here is the longer one of the
// acquisition's and of [holdfast.Options].Lease, so give all who use a lock the same. Masters that
// are all young, and that the client meets for the first time, count as new, so new masters can be
// used at once. The rule needs the permission for INFO. [TrustRestarts] turns it off, for
// masters that write each change to the disk before they answer.
//
// # Hand-off
//
// Within a process the lock is handed from goroutine to goroutine as a lock of package rlock is,
// for 10 ms at a time while others wait. Each holder has a greater token of its own. The masters
// know all of them by the owner of the first, and so does [holdfast.Hold.Owner].
// [holdfast.NoHandoff] turns hand-off off.
//
// # Not promised
//
//   - That two processes never are inside. They can be where clocks jump, where all masters lose
//     their data at once, or where a process pauses for longer than the lease. A quorum narrows the
//     window that a single master's failure opens. The fencing token, checked by the resource,
//     closes it.
//   - An order among waiters of different processes. Those of one process are served first come,
//     first served.
//   - That TryLock is granted if several ask for a free lock at the same time: their votes may be
//     split.
//   - Anything if the masters are not independent.
//   - That a hold survives the failure of a single master in the moment after it was won. A master
//     whose vote another client had then (which is usual where many want the lock) counts for the
//     hold only four times [MasterTimeout] after it has granted the lock, a second or so.
//     If another master loses its data before that, the two are a majority of three. The hold is
//     then lost, though mostly nobody else had the lock.
//   - That a Redisson lock at the masters is noticed which came and went after somebody deleted the
//     keys: it raises no token.
//   - That tokens grow where one clock is wrong, another master is down, and the masters have
//     forgotten the last tokens, which they do after an hour. Of two clocks nobody can tell which
//     one is wrong.
//   - That another kind of lock of the name, at one of the masters, is noticed. (One server that
//     grants both kinds notices.) That master refuses this lock and the others grant it. The same
//     is true of the same owner, who waits for itself where a majority of the masters refuses. Use
//     one kind for a name.
package redlock

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
)

// Mutex is a lock by name on a set of masters. Any number of Mutexes, in any number of processes,
// with one name on the same masters are the same lock. Make one with [New]; it holds no resources
// and needs no closing. All methods are safe for concurrent use.
type Mutex struct {
	masters *quorum
}

var _ holdfast.Locker = (*Mutex)(nil)

// New makes the lock called name on the masters of these clients, in any order. opts are defaults
// for each acquisition; among them may be [MasterTimeout] and [TrustRestarts]. Nothing is sent; an
// invalid name, option or list is returned as an error by the first operation.
//
// The name is the key in Redis. If it contains a brace it must contain a hash tag, as in
// "orders:{42}".
func New(clients []*holdfast.Client, name string, opts ...holdfast.Option) *Mutex {
	masters := make([]*engine.Client, len(clients))
	for i, c := range clients {
		masters[i] = (*engine.Client)(c)
	}
	return &Mutex{newQuorum(masters, newProtocol(name), opts)}
}

// Name is the name of the lock in Redis.
func (m *Mutex) Name() string {
	if m == nil || m.masters == nil {
		return ""
	}
	return m.masters.base.Name()
}

// Lock waits until a majority of the masters grants the lock. Under a context that carries the
// owner of a hold of this lock it re-enters. The context bounds the wait, and so does
// [holdfast.Wait].
//
// Errors:
//   - [holdfast.ErrNotAcquired] if the wait was over first and somebody else has the lock;
//   - [holdfast.ErrUnavailable] if no majority of masters said who has it;
//   - [holdfast.ErrClosed] if the client was closed;
//   - [holdfast.ErrInvalid] for a bad argument;
//   - [holdfast.ErrLost] if the hold to be re-entered is lost.
//
// With the first two, errors.Is is true for the cause of the context too. Where too few masters
// agree for longer than [holdfast.Options].RetryBudget, the error says how many agreed and what
// each said, or why it said nothing. After any error the lock is not held, and what masters may
// have granted is given back.
func (m *Mutex) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("lock"); err != nil {
		return nil, err
	}
	h, err := m.masters.base.Lock(ctx, opts...)
	return (*holdfast.Hold)(h), m.fail("lock", err)
}

// TryLock is Lock without waiting: if another owner holds the lock, or several ask for it at once,
// it returns [holdfast.ErrNotAcquired]. If too few masters agree it asks once more, because
// connections may have gone stale, and waits no longer than two times [MasterTimeout] for their
// answers.
func (m *Mutex) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("try"); err != nil {
		return nil, err
	}
	h, err := m.masters.base.TryLock(ctx, opts...)
	return (*holdfast.Hold)(h), m.fail("try", err)
}

// State is a lock as its masters see it at one moment. It is old news when it arrives.
type State struct {
	holdfast.State               // the majority's view
	Masters        []MasterState // what each of them said, in the order of the clients
}

// MasterState is what one master said, or why it said nothing.
type MasterState struct {
	Master         string // its place in the list of clients, from 1, and its address
	holdfast.State        // as this master sees it; nothing but Waiters is set if it did not answer
	Err            error  // why it did not; nil if it did
}

// State asks all masters who holds the lock, at the same time, and waits for none longer than
// [MasterTimeout]. Owner is who holds it at a majority. Who holds it at fewer masters does
// not hold the lock: that is somebody who asks for it now, or one who died. Remaining is for how
// long a majority keeps it. Token is the greatest that one of the masters knows; while the lock is
// free that may be one that was proposed in vain. Waiters is -1: this kind keeps no queue in Redis.
//
// Where it depends on masters that do not answer who holds the lock, as it does when a majority is
// silent, the error is [holdfast.ErrUnavailable]. It says what each master said, and Masters is
// filled all the same.
func (m *Mutex) State(ctx context.Context) (State, error) {
	if err := m.check("state"); err != nil {
		return State{}, err
	}
	majority, masters, err := m.masters.state(ctx)
	return State{majority, masters}, m.fail("state", err)
}

// ForceUnlock frees the lock of whoever holds it at a majority of the masters, at all that answer,
// and wakes the waiters. It returns whether there was a holder. A holder of this client learns of
// it at once. Other holders learn of it at their next renewal, within a third of their lease, and
// work on until then. Use it for a lock whose holder is known to be dead. Only fencing tokens
// protect from a holder who is not.
//
// It succeeds when a majority of the masters is free of the holder. Else the error is
// [holdfast.ErrUnavailable] and says how many are, and what the others said; those that are free
// stay so. Where the masters that are silent decide whether somebody has a majority, that one is
// forced out too. What somebody holds at a minority only is left alone; it ends with its lease.
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) {
	if err := m.check("force unlock"); err != nil {
		return false, err
	}
	forced, err := m.masters.forceUnlock(ctx)
	return forced, m.fail("force unlock", err)
}

// check lets a zero or nil Mutex fail with an error and not with a panic.
func (m *Mutex) check(op string) error {
	if m == nil || m.masters == nil {
		return &holdfast.Error{Op: op, Kind: kindName,
			Err: fmt.Errorf("%w: nil or zero Mutex; make one with redlock.New",
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
