// Package fairlock provides a reentrant lock on Redis that serves waiters first come, first served:
// Redisson's fair lock for Go, on the same keys.
//
// The comment of package holdfast says what every kind of lock promises. Beyond that:
//
//   - Grants go in the order in which requests arrived at the server, whatever client they came
//     from. Nobody overtakes a waiter, neither by TryLock nor by asking at the right moment. Only a
//     re-entry does not wait.
//   - The release itself grants the lock to the first waiter and sends a message to that waiter's
//     client. No other waiter wakes.
//   - Waiters of one client that stand next to each other in the queue are granted the lock
//     together, as a run. The client hands the lock off among them without asking the server, in the
//     order of the queue. Each has a fencing token and a context of its own. Hold.Owner is that of
//     the first, as Redis has it. [holdfast.NoHandoff] keeps a waiter out of runs.
//   - A waiter that leaves or dies holds nobody up for long. A waiter that cannot be reached when
//     the lock is handed off is passed over. A waiter that was reached and does not renew (its
//     process is stopped, or its machine is gone) costs one claim, two seconds. The other waiters
//     of its client cost nothing: they are passed over until the client sends something again. A
//     place in the queue ends after 15 s if its client does not keep it. Redisson's waiters may
//     take time off the places behind them, each as much as its own wait, from 300 s to an hour.
//     Such places get that time on top of the 15 s, and end within 15 s after those waiters have
//     gone.
//
// # Not promised
//
//   - An order between requests that are under way to the server at one moment. The request of a
//     waiter is kept back for up to 2 ms while another waiter of its client has a place, or has just
//     had the lock and another client wants it too.
//   - The place of a waiter whose connection for messages is down at the moment of a hand-over. The
//     waiter keeps its place for the next hand-over if fewer than 128 waiters are in that position.
//   - The turn of a client that cannot listen: its connection for messages is not up a second after it was
//     wanted, as where the server has no room for it or a proxy does not pass SUBSCRIBE on. Its
//     waiters have places, and are granted the lock by its polls when the lock is free. Waiters that
//     can be reached go first.
//   - The place of a process that is stopped for longer than 15 s.
//   - The order of a queue that somebody has deleted (FLUSHDB, DEL of its keys). Its waiters ask for places anew when a poll
//     finds theirs gone: within a second, and within five if more than three other clients were in front, since these poll
//     every five seconds. Until then a released lock may be free beside them. So it is with waiters of package semaphore and
//     of package election.
//   - In a queue that Redisson's waiters share, more than Redisson itself observes. Redisson's
//     deadlines go by the clocks of its clients. Its dead waiters hold up the waiters behind them
//     for two seconds each. Where no client of this library waits, they do so until their deadline.
//
// Redisson 4.7 has a bug: in the queue it takes the time of tryLock(time, unit) for milliseconds,
// whatever the unit. With SECONDS its own waiters lose their places within milliseconds. If the
// lock is handed to such a waiter just then, the waiters behind it wait for the next poll, a
// second. With NANOSECONDS each of its grants takes days off all places behind it. These places are
// then lost, and a poll takes them anew. Use MILLISECONDS there.
//
// # Cost
//
// Lock and Unlock send one script each, even where others wait. In a run only the last Unlock does,
// and waiters of one client that come at the same time ask for their places by one script. However long
// the queue is, a script looks at a bounded number of places, or takes those that it looks at out for good:
// dead places cost their removal, once. 10 000 that end together keep the server for 15 to 40 ms, in one
// script. While a client has waiters, it sends a script a second for each name, or one in five seconds
// if several other clients are in front of all of its own waiters; and one when a holder's lease is over
// that ends sooner. A client that cannot listen sends one a second. Where 128 waiters in front cannot be
// reached, these lose their places.
//
// Callers who leave cost less than callers who are served, however many come and however shortly they
// wait. The places of those who have left are given back by one script for a hundred of them. The queue
// mostly has at most twice as many places as there are callers who wait. It may have more while a server or a
// process stands still: what was asked for meanwhile arrives all at once, and is given back after that. And where all wait for
// less than a round trip, the places of those who left are there until the undo has arrived, a round trip later: 64 callers with
// Wait(5ms) whose server was 10 ms away had 127 places in half of the looks, and more than 200 in a tenth of them on a busy machine.
//
// A waiting goroutine costs about 5 KiB, its stack included, however many wait. A few goroutines of
// the client ask the server for all of them. (A client's first waiter for a name asks by itself,
// and keeps the larger stack that this takes.)
package fairlock

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/fair"
)

const kindName = "fairlock"

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
	client := (*engine.Client)(c)
	return &Mutex{base: fair.NewLock(client, fair.NewProtocol(kindName, client.InRedis(name)), opts...)}
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

// TryLock is Lock without waiting. If another owner holds the lock, or waits for it, TryLock
// returns [holdfast.ErrNotAcquired] at once. TryLock overtakes no waiter that can be reached, even
// while the lock is free.
func (m *Mutex) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("try"); err != nil {
		return nil, err
	}
	h, err := m.base.TryLock(ctx, opts...)
	return (*holdfast.Hold)(h), m.fail("try", err)
}

// State asks the server who holds the lock, in one round trip. Waiters counts the places in the
// queue at the server, of all clients.
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
//   - A hold of this client is renewed at once, and so ends within milliseconds if Redis answers.
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
		return &holdfast.Error{Op: op, Kind: kindName,
			Err: fmt.Errorf("%w: nil or zero Mutex; make one with fairlock.New",
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
