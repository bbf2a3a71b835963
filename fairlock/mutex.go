// Package fairlock provides a reentrant lock on Redis that serves waiters first come, first served:
// Redisson's fair lock for Go, on the same keys.
//
// The comment of package holdfast says what every kind of lock promises. Beyond that:
//
//   - The server grants the lock in the order in which requests arrived, whatever client they came
//     from. Nobody overtakes a waiter, neither by TryLock nor by asking at the right moment. Only a
//     re-entry does not wait.
//   - The release itself grants the lock to the first waiter and sends a message to that waiter's
//     client. No other waiter wakes.
//   - Waiters of one client that stand next to each other in the queue are granted the lock
//     together, as a run. The client hands the lock off among them in the order of the queue,
//     without asking the server. Each has a fencing token and a context of its own. Hold.Owner is
//     that of the first, as Redis has it. [holdfast.NoHandoff] keeps a waiter out of runs.
//   - A waiter that cancels or dies delays the others only briefly. A release passes over a waiter
//     that it cannot reach. A waiter that was reached but does not renew costs one claim, two
//     seconds: its process is stopped, or its machine is gone. The other waiters of its client cost
//     nothing: the server passes over them until the client sends something again.
//   - A place in the queue ends after 15 s if its client does not renew it. Redisson's waiters may
//     take time off the places behind them, each as much as its own wait, from 300 s to an hour.
//     Such places get that time on top of the 15 s, and end within 15 s after those waiters have
//     gone.
//
// # Not promised
//
//   - An order between requests that are on their way to the server at the same time. The client
//     delays the request of a waiter by up to 2 ms while another of its waiters has a place. It
//     also does so if another of its waiters has just had the lock and another client wants it too.
//   - The turn of a waiter whose connection for messages is down at the moment of a hand-over. The
//     waiter keeps its place for the next hand-over if fewer than 128 waiters are in that position.
//   - The turn of a client that cannot listen: its connection for messages is not up a second after
//     the client wanted it. The server may have no room for the connection, or a proxy does not
//     pass SUBSCRIBE on. The waiters of such a client have places, and its polls get them the lock
//     when the lock is free. Waiters that can be reached go first.
//   - The place of a process that is stopped for longer than 15 s.
//   - The order of a queue that somebody has deleted (FLUSHDB, DEL of its keys). A waiter asks for
//     a new place when a poll finds that its place is gone. That takes up to a second, or up to
//     five if more than three other clients were in front, since clients that far behind poll every
//     five seconds. Until then a released lock may stay free although they wait. The same holds for
//     waiters of the packages semaphore and election.
//   - More than Redisson itself observes, in a queue that Redisson's waiters share. Redisson's
//     deadlines go by the clocks of its clients. Its dead waiters hold up the waiters behind them
//     for two seconds each. If no client of this library waits, they do so until their deadline.
//
// Redisson 4.7 has a bug: in the queue it takes the time of tryLock(time, unit) for milliseconds,
// whatever the unit. Use MILLISECONDS there. With SECONDS its own waiters lose their places within
// milliseconds. If the lock is handed to such a waiter just then, the waiters behind it wait for
// the next poll, a second. With NANOSECONDS each of its grants takes days off all places behind it.
// These places are then lost, and their clients ask for new ones at the next poll.
//
// # Cost
//
// Lock and Unlock send one script each, even if others wait. In a run only the last Unlock sends a
// script. Waiters of one client that come at the same time ask for their places by one script, if
// they wait for about as long.
//
// A script looks at a bounded number of places, however long the queue is, or removes the places
// that it looks at. So a dead place costs one removal. 10 000 places that end together keep the
// server busy for 15 to 40 ms, in one script.
//
// While a client has waiters, it sends one script a second for each name, or one in five seconds if
// several other clients are in front of all its waiters. It sends one more at the end of a holder's
// lease, if that ends sooner. A client that cannot listen sends one script a second. If 128 waiters
// in front cannot be reached, they lose their places.
//
// Callers that stop waiting cost less than callers that are served, however many come and however
// briefly they wait. One script gives back up to a hundred of their places. The queue mostly has at
// most twice as many places as there are waiting callers. It may have more while a server or a
// process stands still: the requests of that time arrive all at once, and their places are given
// back after that.
//
// It may also have more if all wait for less than a round trip. The places of callers that stopped
// waiting remain until the undo arrives, a round trip later. 64 callers with Wait(5ms) and a server
// 10 ms away had 127 places in half of the samples. On a busy machine they had more than 200 in a
// tenth of them.
//
// A waiting goroutine costs about 5 KiB, its stack included, however many wait. A few goroutines of
// the client ask the server for all of them. (A client's first waiter for a name asks by itself,
// and keeps the larger stack that this takes.)
package fairlock

import (
	"context"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/fair"
	"github.com/holdfast-go/holdfast/internal/operr"
)

const kindName = "fairlock"

var ops = operr.Kind{Name: kindName, New: "Mutex; make one with fairlock.New"}

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
