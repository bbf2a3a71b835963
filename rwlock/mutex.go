// Package rwlock provides a reentrant read-write lock on Redis: Redisson's RReadWriteLock for Go. It
// uses the same keys, so Go and Java services can share a lock.
//
// Any number of owners may hold the lock to read, or one to write. The comment of package holdfast
// says what every kind of lock promises. Beyond that:
//
//   - The owner that writes may also read, and may go on reading after it has stopped writing. Take
//     both holds under one context of [holdfast.WithOwner], because the context of a hold ends with
//     that hold.
//   - An owner that reads and wants to write would wait for itself, so Lock returns [ErrUpgrade] at
//     once. Unlock the read hold first, and read again under the write hold.
//   - A waiting writer holds back new readers: readers that come after it wait too, unless they
//     re-enter. The server grants a read of the writer's own owner together with the write. A
//     reader lets at most one waiting writer go first. After that it competes with writers as
//     waiters for an rlock compete. A writer that stops waiting lets the readers in at once. A
//     writer that dies does so within five seconds.
//   - All waiting readers wake together.
//   - Callers that stop waiting do not delay other callers of their client, however many come and
//     go. A caller that waits without a limit gets the lock before later callers of its client, or
//     together with them if they read.
//   - Each reader has a lease of its own, which its client renews. A writer does not wait for a
//     reader whose lease has ended. Redisson's clients renew the hash and leave the fields of dead
//     readers in it.
//   - A write has a fencing token greater than every one before. The token of a read is that of the
//     last write. So a store that checks tokens refuses what was read before a write that it has
//     seen.
//
// # Not promised
//
//   - An order among writers of different processes, or with Redisson's writers. Within a process
//     writers are served first come, first served. A client that locks again without a pause is
//     ahead of the clients that have yet to learn of its release. This was measured beside a client
//     that held the lock for 20 ms at a time. A writer on the same machine was passed by a median
//     of 2 writes and at most 22, and a writer 2 ms away by a median of 33 and at most 75. With a
//     pause of 5 ms between unlock and lock it was at most one. Use a fairlock where that matters.
//   - That Redisson's readers wait for a writer. They do not know of waiting writers, and if there
//     are enough of them no writer ever gets in.
//   - That a reader gets in within a certain number of writes. Nothing holds writers back for
//     waiting readers. Beside 8 goroutines of 2 clients that wrote all the time, half of the reads
//     were passed by 3 to 26 writes, depending on how far away the reader was, and one by 210. None
//     waited for longer than two seconds.
//   - That readers of this library and of Redisson outlive each other's leases. A renewal of
//     Redisson's sets the end of the whole lock to its lockWatchdogTimeout. If its readers share
//     the lock, the lease must not be longer than that. Both are 30 seconds by default.
//   - That a reader of Redisson's gets in as soon as an owner that still reads has stopped writing
//     and its time of [holdfast.HoldAtLeast] is over. The reader may wait until that owner renews
//     its lease.
//   - That a writer notices at once that the last reader has died. It asks every two seconds, and
//     when the longest lease that it knows of ends. If there are more than 256 readers, the server
//     does not check each lease, and the writer waits until the lock ends as a whole. The same
//     holds for a server that refuses scripts the keys that they do not declare, since others'
//     leases cannot be declared.
//
// # Cost
//
// Lock, RLock and Unlock of a free lock send one script each. The client does not hand the lock
// off: the server grants it to each reader and each writer. If somebody waits, the Unlock of a
// reader checks the other readers, up to 256 of them.
package rwlock

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/operr"
)

// ErrUpgrade says that the owner reads and wants to write, so that it would wait for itself. Lock
// returns it at once, or when the owner is granted a read during the wait.
var ErrUpgrade = errors.New("this owner holds the lock to read, so to write it would wait for itself; unlock the read hold first, " +
	"or write first and read under the write hold's context")

var ops = operr.Kind{Name: kindName, New: "RWMutex; make one with rwlock.New"}

// RWMutex is a read-write lock by name. Any number of RWMutexes, in any number of processes, with
// one name on one Redis are the same lock. Make one with [New]; it holds no resources and needs no
// closing. All methods are safe for concurrent use.
type RWMutex struct {
	write, read *engine.Lock
	protocol    *protocol
}

var _ holdfast.Locker = (*RWMutex)(nil)

// New makes the lock called name on a client. opts are defaults for each acquisition, to read and to
// write. [rlock.Keep] is refused, and so is [holdfast.HoldAtLeast] for readers. New sends nothing.
// For an invalid name, option or client, the first operation returns the error.
//
// The name is the key in Redis. If it contains a brace it must contain a hash tag, as in
// "orders:{42}". With the prefix of [holdfast.Options] it has at most 1024 bytes.
func New(c *holdfast.Client, name string, opts ...holdfast.Option) *RWMutex {
	client := (*engine.Client)(c)
	p := newProtocol(client.InRedis(name))
	write, read := engine.NewLock(client, writing{p}, opts...), engine.NewLock(client, reading{p}, opts...)
	write.Refine(func(t *engine.Traits) { t.Upgrade = ErrUpgrade }, nil)
	read.Refine(func(t *engine.Traits) {
		t.Shared, t.Together = true, true
		t.NoAtLeast = "readers keep nobody out for longer than they read; give it to Lock only"
	}, nil)
	return &RWMutex{write, read, p}
}

// Name is the name of the lock in Redis.
func (m *RWMutex) Name() string {
	if m == nil || m.write == nil {
		return ""
	}
	return m.write.Name()
}

// Lock waits until the owner may write. It re-enters if ctx carries the owner of a write hold of
// this lock. The context bounds the wait, and so does [holdfast.Wait].
//
// Errors:
//   - [ErrUpgrade] if the owner reads and does not write;
//   - [holdfast.ErrNotAcquired] if the wait ended first and others have the lock;
//   - [holdfast.ErrUnavailable] if Redis did not say who has it;
//   - [holdfast.ErrClosed] if the client was closed;
//   - [holdfast.ErrInvalid] for a bad argument;
//   - [holdfast.ErrLost] if the hold to be re-entered is lost;
//   - [holdfast.ErrNotReplicated], only with [holdfast.Replicas];
//   - otherwise an error of Redis.
//
// With the second and the third, errors.Is is also true for the cause of the context. After any error
// the caller does not hold the lock, and the client releases a grant that the server may have made.
func (m *RWMutex) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("lock"); err != nil {
		return nil, err
	}
	h, err := m.write.Lock(ctx, opts...)
	return (*holdfast.Hold)(h), m.fail("lock", err)
}

// TryLock is Lock without waiting. If anybody else reads or writes, TryLock returns
// [holdfast.ErrNotAcquired] at once. It may overtake waiting writers, and keeps no reader out.
func (m *RWMutex) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("try"); err != nil {
		return nil, err
	}
	h, err := m.write.TryLock(ctx, opts...)
	return (*holdfast.Hold)(h), m.fail("try", err)
}

// RLock waits until the owner may read. It re-enters if ctx carries the owner of a read hold of this
// lock, and does not wait if it carries the owner of a write hold. Errors are those of
// [RWMutex.Lock], without ErrUpgrade.
func (m *RWMutex) RLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("read-lock"); err != nil {
		return nil, err
	}
	h, err := m.read.Lock(ctx, opts...)
	return (*holdfast.Hold)(h), m.fail("read-lock", err)
}

// TryRLock is RLock without waiting. If somebody else writes, or waits to write, TryRLock returns
// [holdfast.ErrNotAcquired] at once.
func (m *RWMutex) TryRLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("try to read"); err != nil {
		return nil, err
	}
	h, err := m.read.TryLock(ctx, opts...)
	return (*holdfast.Hold)(h), m.fail("try to read", err)
}

// RLocker returns a lock whose Lock and TryLock are RLock and TryRLock.
func (m *RWMutex) RLocker() holdfast.Locker { return (*reader)(m) }

// reader is the side of a lock to read.
type reader RWMutex

// Name is the name of the lock in Redis.
func (r *reader) Name() string { return (*RWMutex)(r).Name() }

// Lock is [RWMutex.RLock].
func (r *reader) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return (*RWMutex)(r).RLock(ctx, opts...)
}

// TryLock is [RWMutex.TryRLock].
func (r *reader) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return (*RWMutex)(r).TryRLock(ctx, opts...)
}

// check returns an error for a zero or nil RWMutex, so that its methods do not panic.
func (m *RWMutex) check(op string) error { return ops.Check(op, m != nil && m.write != nil) }

// fail wraps the error of an operation in a [holdfast.Error]. It returns nil for nil.
func (m *RWMutex) fail(op string, err error) error { return ops.Fail(op, m.Name(), err) }
