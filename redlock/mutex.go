// Package redlock provides a reentrant lock on several independent Redis masters. The owner that
// has the votes of a majority holds the lock. The lock goes on working while a minority of the
// masters is dead, and the failure of one master loses no lock.
//
// Sources: "Distributed Locks with Redis" (the Redlock algorithm) of the Redis documentation; M.
// Kleppmann, "How to do distributed locking", for what the algorithm cannot do.
//
// A lock asks all masters in parallel, and is held when a majority has granted it. The hold is
// trusted for 99 % of the lease less 2 ms, counted from before the first master was asked. Votes of
// a minority are given back at once.
//
// The watchdog renews on all masters, and a majority is enough. A master that comes back is asked
// to restore the hold. A master that has forgotten the hold, whether it lost all its data or only
// the lock's key, does not count for one lease. If a majority may have granted the lock to another
// owner since, the hold is lost, even if that owner has gone.
//
// The fencing token is greater than every token that a majority knew before, and a majority knows
// it before the grant counts.
//
// # Masters
//
// [New] takes one client for each master. A master is a single server without replicas, or with
// replicas that never take over by themselves. N masters survive the failure of (N-1)/2, rounded
// down: five survive two, three survive one. An even number is allowed but survives no more
// failures: four masters survive one failure, as three do, and three of the four have to agree.
// With one master the lock is like rlock, but with redlock's rules for tokens and restarts. Two
// clients that reach the same server are refused, at the first attempt if all of them answer then, and else
// when the one that did not has voted. It needs the permission for INFO.
//
// The holds belong to the first client: close that client first, or close all. A list with the same
// clients in another order means the same locks. Their holds then belong to the first client of
// whichever list was used first.
//
// A master that was started less than a lease ago does not vote if it may have granted the lock
// before the restart and lost its data. That is assumed if the client knew an earlier process of
// this master, if the other masters are older, or if its vote would decide against a holder. The
// lease here is the acquisition's or that of [holdfast.Options].Lease, whichever is longer. So use
// the same lease in all processes that share a lock. Masters that are all young, and that the
// client meets for the first time, count as new, so new masters can be used at once. The rule needs
// the permission for INFO. [TrustRestarts] turns the rule off, for masters that write each change
// to the disk before they answer.
//
// # Hand-off
//
// Within a process the lock is handed from goroutine to goroutine, as in package rlock, for 10 ms
// at a time while other processes wait. Each holder has a greater token of its own. The masters and
// [holdfast.Hold.Owner] name all these holders by the owner of the first. [holdfast.NoHandoff]
// turns hand-off off.
//
// # Cost
//
// Callers who leave cost less than callers who are served, however many come and however shortly they
// wait. No master is asked for a caller who has left before its turn. Of the callers of a client who
// wait for a lock one asks at a time. Goroutines are at most four for each caller who is there.
//
// # Not promised
//
//   - That two processes never hold the lock at once. They can where clocks jump, where all masters
//     lose their data at once, or where a process pauses for longer than the lease. A quorum
//     narrows the window that a single master's failure opens. The fencing token, checked by the
//     resource, closes the window.
//   - An order among waiters of different processes. The waiters of one process are served first
//     come, first served.
//   - That TryLock gets a free lock if several processes ask for it at the same time: the votes may
//     be split.
//   - Anything if the masters are not independent.
//   - That a hold survives the failure of a single master in the moment after it was won. At that
//     moment another client may have the vote of one master, as is usual where many want the lock.
//     When that master then grants the lock to the holder, its vote counts only after four times
//     [MasterTimeout], a second or so. If one more master of three loses its data before that, only
//     one vote counts. The hold is then lost, although mostly nobody else had the lock.
//   - That a Redisson lock at the masters is noticed if it came and went after somebody deleted the
//     keys. Such a lock raises no token.
//   - That tokens grow where one master's clock is wrong, another master is down, and the masters
//     have forgotten the last tokens, which they do after an hour. With two clocks, nobody can know
//     which is wrong.
//   - That a lock of another kind with the same name at one of the masters is noticed. (Where one
//     server grants both kinds, it notices.) That master refuses this lock, and the others grant
//     it. The same is true under one owner, which waits for itself where a majority of the masters
//     refuses. Use one kind for a name.
package redlock

import (
	"context"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/operr"
)

var ops = operr.Kind{Name: kindName, New: "Mutex; make one with redlock.New"}

// Mutex is a lock by name on a set of masters. Any number of Mutexes, in any number of processes,
// with one name on the same masters are the same lock. Make one with [New]; it holds no resources
// and needs no closing. All methods are safe for concurrent use.
type Mutex struct {
	masters *quorum
}

var _ holdfast.Locker = (*Mutex)(nil)

// New makes the lock called name on the masters of these clients, in any order. opts are defaults
// for each acquisition, and may include [MasterTimeout] and [TrustRestarts]. New sends nothing. For
// an invalid name, option or list, the first operation returns the error.
//
// The name is the key in Redis. If it contains a brace it must contain a hash tag, as in
// "orders:{42}". With the prefix of [holdfast.Options] it has at most 1024 bytes.
func New(clients []*holdfast.Client, name string, opts ...holdfast.Option) *Mutex {
	masters := make([]*engine.Client, len(clients))
	for i, c := range clients {
		masters[i] = (*engine.Client)(c)
	}
	if len(masters) > 0 {
		name = masters[0].InRedis(name) // checkMasters sees to it that all have one prefix
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

// Lock waits until a majority of the masters grants the lock. It re-enters if ctx carries the owner
// of a hold of this lock. The context bounds the wait, and so does [holdfast.Wait].
//
// Errors:
//   - [holdfast.ErrNotAcquired] if the wait was over first and somebody else has the lock;
//   - [holdfast.ErrUnavailable] if no majority of masters said who has it;
//   - [holdfast.ErrClosed] if the client was closed;
//   - [holdfast.ErrInvalid] for a bad argument;
//   - [holdfast.ErrLost] if the hold to be re-entered is lost.
//
// With the first two, errors.Is is true for the cause of the context too. If too few masters agree
// within [holdfast.Options].RetryBudget, the error says how many agreed. It also says what each
// master answered, or why it did not answer. After any error the lock is not held, and votes
// that masters may have given are given back.
func (m *Mutex) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("lock"); err != nil {
		return nil, err
	}
	h, err := m.masters.base.Lock(ctx, opts...)
	return (*holdfast.Hold)(h), m.fail("lock", err)
}

// TryLock is Lock without waiting: if another owner holds the lock, or several ask for it at once,
// it returns [holdfast.ErrNotAcquired]. If too few masters agree, TryLock asks once more, because
// connections may have gone stale. It waits no longer than two times [MasterTimeout] for the
// answers.
func (m *Mutex) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("try"); err != nil {
		return nil, err
	}
	h, err := m.masters.base.TryLock(ctx, opts...)
	return (*holdfast.Hold)(h), m.fail("try", err)
}

// State is a lock as its masters see it at one moment. It may be out of date when it arrives.
type State struct {
	holdfast.State               // the majority's view
	Masters        []MasterState // the answer of each master, in the order of the clients
}

// MasterState is the answer of one master, or the reason why it did not answer.
type MasterState struct {
	Master         string // its place in the list of clients, from 1, and its address
	holdfast.State        // as this master sees it; nothing but Waiters is set if it did not answer
	Err            error  // why it did not; nil if it did
}

// State asks all masters at the same time who holds the lock, and waits for none longer than
// [MasterTimeout]. Owner is the owner that a majority of the masters names. An owner that only a
// minority names does not hold the lock: it is asking for it just now, or it died. Remaining is the
// time for which a majority keeps the lock. Token is the greatest token that any master knows;
// while the lock is free, it may come from an attempt that failed. Waiters is -1: this kind keeps
// no queue in Redis.
//
// The error is [holdfast.ErrUnavailable] if the masters that did not answer could decide who holds
// the lock, as they do when a majority is silent. The error has each master's answer, and Masters
// is set all the same.
func (m *Mutex) State(ctx context.Context) (State, error) {
	if err := m.check("state"); err != nil {
		return State{}, err
	}
	majority, masters, err := m.masters.state(ctx)
	return State{majority, masters}, m.fail("state", err)
}

// ForceUnlock frees the lock that an owner holds at a majority of the masters. It frees it at all
// masters that answer, and wakes the waiters. It reports whether there was a holder. A hold of this
// client is renewed at once, and so ends within milliseconds. Holders of other clients work on until
// their next renewal, within a third of their lease. Then they have lost the lock, even if no other
// owner has taken it meanwhile. A hold with NoRenewal ends at its deadline, or at its Unlock. Use
// ForceUnlock for a lock whose holder is known to be dead. Only fencing tokens protect from a holder
// that is still alive.
//
// ForceUnlock succeeds when a majority of the masters is free of the holder. Otherwise the error is
// [holdfast.ErrUnavailable]. It says how many masters are free, and what the others answered; the
// free masters stay free. If the silent masters decide whether an owner has a majority, that owner
// is forced out too. An owner with only a minority is left alone; its votes end with their lease.
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) {
	if err := m.check("force unlock"); err != nil {
		return false, err
	}
	forced, err := m.masters.forceUnlock(ctx)
	return forced, m.fail("force unlock", err)
}

// check returns an error for a zero or nil Mutex, so that its methods do not panic.
func (m *Mutex) check(op string) error { return ops.Check(op, m != nil && m.masters != nil) }

// fail wraps the error of an operation in a [holdfast.Error]. It returns nil for nil.
func (m *Mutex) fail(op string, err error) error { return ops.Fail(op, m.Name(), err) }
