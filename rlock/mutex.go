// Package rlock provides a reentrant lock on Redis: Redisson's RLock for Go. It uses the same keys,
// so Go and Java services can share a lock.
//
// The comment of package holdfast says what every lock promises. This package promises no order
// among waiters of different processes: whoever asks first after a release gets the lock. Within a
// process waiters are served first come, first served. TryLock may overtake waiters.
//
// Cost: when nobody else wants the name, Lock and Unlock take one round trip each, and nothing else
// is sent.
//
// # Hand-off
//
// Where several goroutines of a client want a name, Unlock hands the lock to the goroutine that has
// waited longest, without asking the server. Each of them is a holder like any other, with an
// owner, a context and a greater fencing token of its own. Only the hash in Redis may still show an
// earlier owner, for a tenth of a second.
//
// Every 10 ms the client asks the server whether other clients listen for a release. If so, it
// gives the lock up and lets each of them go first. So processes take turns. A waiter in another
// process waits for 10 ms and for the work of the present holder, and as long again for each other
// process that waits.
//
// The head start is 2 ms for each of them. That is too short for a process with long round trips to
// the server, so such a process asks for one and a half of its round trips, up to 0.1 s. So
// processes up to some 30 ms away take part in the turns. Head starts are a preference and no
// promise: a slower process misses its turn, and processes that do not hand the lock off let nobody
// go first.
//
// A turn is up to 10 ms of hand-offs in a process with several waiters, and one grant in a process
// with a single waiter. So processes near the server get more grants than with
// [holdfast.NoHandoff]. Where the server cannot say whether anybody listens (a cluster of Redis 6,
// ClassicPubSub of [holdfast.Options] in a later one, or no permission to ask), the client gives the
// lock up every 10 ms.
//
// Clients of Redisson have one grant in a turn. So while they compete for a lock, and for five
// seconds after one was last seen to have it, the server is asked after each hold: then a turn is one
// grant for all.
//
// A lock is not handed off
//   - when renewals fail, so that less than half of the lease is left;
//   - to or from a holder with a lease of its own length or without renewal;
//   - by or to a holder that asked for the lock with [holdfast.NoHandoff].
//
// # Keeping
//
// With [holdfast.Keep] the client keeps the lock after Unlock, although nobody of it waits, and its
// next Lock takes the lock without asking the server. Who is refused calls the client, which gives
// the lock back. The calls of one client for one lock are messages on the channel of the lock,
// followed by a colon and the client's id. The letter before the number in the owner's id says
// whether the client wants to be called: k by PUBLISH, s by SPUBLISH, h not at all.
//
// A lock is kept only when the server has said that nobody listens for a release, and while calls
// have arrived without a break since then. So nobody waits unheard, except who cannot call, and that
// for no longer than the option says.
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
//   - [holdfast.ErrNotAcquired] if the wait was over first and somebody else has the lock;
//   - [holdfast.ErrUnavailable] if Redis did not say who has it;
//   - [holdfast.ErrClosed] if the client was closed;
//   - [holdfast.ErrInvalid] for a bad argument;
//   - [holdfast.ErrLost] if the hold to be re-entered is lost;
//   - [holdfast.ErrNotReplicated], only with [holdfast.WithReplicas];
//   - otherwise an error of Redis.
//
// With the first two, errors.Is is true for the cause of the context too. After any error the lock
// is not held, and a grant that the server may have made is given back.
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
// State takes a hash with a time to live for a lock, because a later version may have other fields.
// If the hash is somebody else's, Owner is the name of its first field, and Count the number that
// the field holds, or 0. These are errors: a hash without a time to live whose first field does not
// begin like an owner, a hash of more than 128 fields, and a key that is not a hash.
func (m *Mutex) State(ctx context.Context) (holdfast.State, error) {
	if err := m.check("state"); err != nil {
		return holdfast.State{}, err
	}
	s, err := m.base.State(ctx)
	return holdfast.State(s), m.fail("state", err)
}

// ForceUnlock frees the lock, whoever holds it, and wakes the waiters. It reports whether there was
// a holder. Use ForceUnlock for a lock whose holder is known to be dead. Only fencing tokens protect
// from a holder that is still alive: it works on until it learns of its loss.
//
//   - A hold of this client is renewed at once, and so ends within milliseconds if Redis answers. If
//     the lock is handed off within the client in that moment, the next holder's hold ends at its
//     next renewal.
//   - A hold of another client ends at its next renewal, within a third of its lease.
//   - A hold with [holdfast.NoRenewal] asks nothing. It ends at its deadline, or its Unlock returns
//     [holdfast.ErrLost].
//
// ForceUnlock asks who holds the lock and then releases that owner's hold. So it never forces out
// the next holder too, even if a reply is lost and the release is sent again.
//
// The release deletes the key if its first field names an owner of this library or of Redisson. So
// an owner without a time to live is freed too, which Lock never grants. A key without such a field
// is left alone, and ForceUnlock returns an error that says what the key holds.
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) {
	if err := m.check("force unlock"); err != nil {
		return false, err
	}
	forced, err := m.base.ForceUnlock(ctx)
	return forced, m.fail("force unlock", err)
}

// check returns an error for a zero or nil Mutex, so that its methods do not panic.
func (m *Mutex) check(op string) error {
	if m == nil || m.base == nil {
		return &holdfast.Error{Op: op, Kind: kindName, Err: fmt.Errorf("%w: nil or zero Mutex; make one with rlock.New",
			holdfast.ErrInvalid)}
	}
	return nil
}

// fail wraps the error of an operation in a [holdfast.Error]. It returns nil for nil.
func (m *Mutex) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &holdfast.Error{Op: op, Kind: kindName, Name: m.Name(), Err: err}
}
