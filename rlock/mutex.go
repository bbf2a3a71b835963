// Package rlock provides a reentrant lock on Redis: Redisson's RLock for Go. It uses the same keys,
// so Go and Java services can share a lock.
//
// The comment of package holdfast says what every lock promises. Beyond that, this package serves
// waiters within a process first come, first served. Waiters of different processes get the lock in
// no particular order: the first to ask after a release gets it. TryLock may overtake waiters.
//
// Cost: when nobody else wants the name, Lock and Unlock take one round trip each. The client sends
// nothing else.
//
// # Hand-off
//
// If several goroutines of a client want a name, Unlock hands the lock to the goroutine that has
// waited longest, without asking the server. Each of them is a holder like any other, with an
// owner, a context and a greater fencing token of its own. The hash in Redis may still show an
// earlier owner, for up to a tenth of a second.
//
// Every 10 ms the client asks the server whether other clients listen for a release. If so, the
// client releases the lock and lets each of them go first. So processes take turns. A waiter in
// another process waits for 10 ms and for the work of the present holder, and as long again for
// each other process that waits.
//
// The client gives each of the others a head start of 2 ms. That is too short for a process with
// long round trips to the server. Such a process asks for one and a half of its round trips, up to
// 0.1 s. So processes up to some 30 ms away take part in the turns. Head starts are a preference,
// not a promise. A slower process misses its turn, and a process that does not hand the lock off
// gives no head starts.
//
// A process with several waiters hands the lock off for up to 10 ms in its turn. A process with a
// single waiter gets one grant. So processes near the server get more grants than with
// [holdfast.NoHandoff]. The client releases the lock every 10 ms if the server cannot say whether
// other clients listen: in a cluster of Redis 6, with ClassicPubSub of [holdfast.Options] in a
// later cluster, or without the permission to ask.
//
// Clients of Redisson get one grant in a turn. While they compete for a lock, the client asks the
// server after each hold, so that a turn is one grant for all. It goes on asking for five seconds
// after it last saw a client of Redisson hold the lock.
//
// The client does not hand a lock off
//   - when renewals fail, so that less than half of the lease is left;
//   - to or from a holder with a lease of its own length or without renewal;
//   - by or to a holder that asked for the lock with [holdfast.NoHandoff].
//
// # Keeping
//
// With [Keep] the client keeps the lock after Unlock, even if none of its callers waits.
// Its next Lock takes the lock without asking the server. A refused client sends a recall message
// to the keeping client, which then releases the lock. Recall messages go to the channel of the
// lock, followed by a colon and the id of the keeping client. The letter before the number in the
// owner's id says how the client takes recall messages: k by PUBLISH, s by SPUBLISH, h not at all.
//
// The client keeps a lock only if the server has said that nobody listens for a release, and while
// its subscription to recall messages has stood without a break since then. So the client learns of
// every waiter that can send a recall message. Other waiters wait for at most the duration of the
// option.
package rlock

import (
	"context"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/operr"
)

var ops = operr.Kind{Name: kindName, New: "Mutex; make one with rlock.New"}

// Mutex is a lock by name. Any number of Mutexes, in any number of processes, with one name on one
// Redis are the same lock. Make one with [New]; it holds no resources and needs no closing. All
// methods are safe for concurrent use.
type Mutex struct {
	base *engine.Lock
}

var _ holdfast.Locker = (*Mutex)(nil)

// New makes the lock called name on a client. opts are defaults for each acquisition. New sends
// nothing. For an invalid name, option or client, the first operation returns the error.
//
// The name is the key in Redis. If it contains a brace it must contain a hash tag, as in
// "orders:{42}". With the prefix of [holdfast.Options] it has at most 1024 bytes.
func New(c *holdfast.Client, name string, opts ...holdfast.Option) *Mutex {
	return &Mutex{base: engine.NewLock((*engine.Client)(c), newProtocol((*engine.Client)(c).InRedis(name)), opts...)}
}

// Name is the name of the lock in Redis.
func (m *Mutex) Name() string {
	if m == nil || m.base == nil {
		return ""
	}
	return m.base.Name()
}

// Lock waits until the lock is granted. It re-enters if ctx carries the owner of a hold of this
// lock. The context bounds the wait, and so does [holdfast.Wait].
//
// Errors:
//   - [holdfast.ErrNotAcquired] if the wait ended first and somebody else has the lock;
//   - [holdfast.ErrUnavailable] if Redis did not say who has it;
//   - [holdfast.ErrClosed] if the client was closed;
//   - [holdfast.ErrInvalid] for a bad argument;
//   - [holdfast.ErrLost] if the hold to be re-entered is lost;
//   - [holdfast.ErrNotReplicated], only with [holdfast.Replicas];
//   - otherwise an error of Redis.
//
// With the first two, errors.Is is also true for the cause of the context. After any error the
// caller does not hold the lock, and the client releases a grant that the server may have made.
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
//
// State reports any hash with a time to live as a lock, because a later version may have other
// fields. If the hash is somebody else's, Owner is the name of its first field, and Count is the
// number in that field, or 0. These are errors: a hash without a time to live whose first field
// does not begin like an owner, a hash of more than 128 fields, and a key that is not a hash.
func (m *Mutex) State(ctx context.Context) (holdfast.State, error) {
	if err := m.check("state"); err != nil {
		return holdfast.State{}, err
	}
	s, err := m.base.State(ctx)
	return holdfast.State(s), m.fail("state", err)
}

// ForceUnlock frees the lock, whoever holds it, and wakes the waiters. It reports whether there was
// a holder. Use ForceUnlock for a lock whose holder is known to be dead. A holder that is still
// alive works on until it learns of its loss. Only fencing tokens protect from that.
//
//   - A hold of this client is renewed at once, and so ends within milliseconds if Redis answers.
//     If the client hands the lock off at that moment, the next holder's hold ends at its next
//     renewal.
//   - A hold of another client ends at its next renewal, within a third of its lease.
//   - A hold with [holdfast.NoRenewal] sends no renewals. It ends at its deadline, or its Unlock
//     returns [holdfast.ErrLost].
//
// ForceUnlock asks who holds the lock and then releases that owner's hold. So it never forces out
// the next holder too, even if a reply is lost and the client sends the release again.
//
// The release deletes the key if its first field names an owner of this library or of Redisson. It
// also frees an owner without a time to live, which Lock never grants. If the first field names no
// such owner, ForceUnlock leaves the key alone and returns an error that says what the key holds.
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) {
	if err := m.check("force unlock"); err != nil {
		return false, err
	}
	forced, err := m.base.ForceUnlock(ctx)
	return forced, m.fail("force unlock", err)
}

// check returns an error for a zero or nil Mutex, so that its methods do not panic.
func (m *Mutex) check(op string) error { return ops.Check(op, m != nil && m.base != nil) }

// fail wraps the error of an operation in a [holdfast.Error]. It returns nil for nil.
func (m *Mutex) fail(op string, err error) error { return ops.Fail(op, m.Name(), err) }
