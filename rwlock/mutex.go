// Package rwlock provides a reentrant read-write lock on Redis: Redisson's RReadWriteLock for Go. It
// uses the same keys, so Go and Java services can share a lock.
//
// Any number of owners may hold the lock to read, or one to write. The comment of package holdfast
// says what every kind of lock promises. Beyond that:
//
//   - The owner that writes may also read, and may go on reading after it has stopped to write.
//     Take both holds under one context of [holdfast.WithOwner], because the context of a hold ends
//     with that hold.
//   - An owner that reads and wants to write would wait for itself. Lock returns [ErrUpgrade] at
//     once. Unlock the read hold first, and read again under the write hold.
//   - A writer that waits holds back new readers: those that come after it wait too, except those
//     that re-enter. A read of its own owner is granted together with the write. A reader lets at most one waiting writer go first, and then competes with
//     writers as those who wait for an rlock do. A writer that stops waiting lets the readers in at
//     once; one that died does so within five seconds.
//   - All readers that wait are woken together.
//   - Callers who stop waiting do not delay those of the same client who stay: who waits without a limit is granted
//     the lock before those of its client who came after it (readers: together with them), however many come and go.
//   - Each reader has a lease of its own, which its client renews. A writer waits for no reader whose
//     lease has ended. Redisson's clients renew the hash and leave the fields of dead readers in it.
//   - A write has a fencing token greater than every one before. The token of a read is that of the
//     last write: so a store that checks tokens refuses what was read before a write that it has
//     seen.
//
// # Not promised
//
//   - An order among writers of different processes, or with Redisson's writers. Within a process
//     writers are served first come, first served. A client that locks again without a pause is ahead of those who hear
//     of its release: beside one that held the lock for 20 ms at a time, a writer on the same machine was passed by 2
//     writes in half of the cases and by 22 once, and one that was 2 ms away by 33 and by 75. A pause of 5 ms between
//     unlock and lock left one at most. Use a fairlock where that matters.
//   - That Redisson's readers wait for a writer. They do not know of waiting writers, and with enough
//     of them no writer ever gets in.
//   - That a reader gets in among many writers within so many writes: nothing holds writers back for
//     readers that wait. Beside 8 goroutines of 2 clients that wrote all the time, half of the reads
//     were passed by 3 to 26 writes, depending on how far away the reader was, and one by 210; none
//     waited for longer than two seconds.
//   - That readers of this library and of Redisson outlive each other's leases: a renewal of
//     Redisson's sets the end of the whole lock to its lockWatchdogTimeout. Where its readers share
//     the lock, the lease must not be longer than that. Both are 30 seconds by default.
//   - That a reader of Redisson's is let in as soon as an owner that reads on has stopped to write
//     and its time of [holdfast.HoldAtLeast] is over: it may wait until that owner renews its lease.
//   - That a writer notices within a moment that the last reader has died. It looks every two
//     seconds, and when the longest lease that it was told of has ended. Of more than 256 readers it
//     does not look at each lease: it waits until the lock ends as a whole. So it does on a server that
//     refuses scripts the keys that they do not declare, since others' leases cannot be declared.
//
// # Cost
//
// Lock, RLock and Unlock of a free lock send one script each. The lock is not handed off within the
// process: each reader and each writer is granted it by the server. If somebody waits, the Unlock
// of a reader looks at the others, up to 256 of them.
package rwlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
)

// ErrUpgrade says that the owner reads and wants to write: it would wait for itself. Lock says so
// at once, or when the owner is granted a read while it waits.
var ErrUpgrade = errors.New("this owner holds the lock to read, so to write it would wait for itself; unlock the read hold first, " +
	"or write first and read under the write hold's context")

// RWMutex is a read-write lock by name. Any number of RWMutexes, in any number of processes, with
// one name on one Redis are the same lock. Make one with [New]; it holds no resources and needs no
// closing. All methods are safe for concurrent use.
type RWMutex struct {
	write, read *engine.Lock
	protocol    *protocol
}

var _ holdfast.Locker = (*RWMutex)(nil)

// New makes the lock called name on a client. opts are defaults for each acquisition, to read and to
// write. [holdfast.Keep] is refused, and [holdfast.HoldAtLeast] for readers. New sends nothing. For an invalid
// name, option or client, the first operation returns the error.
//
// The name is the key in Redis. If it contains a brace it must contain a hash tag, as in
// "orders:{42}". With the prefix of [holdfast.Options] it has at most 1024 bytes.
func New(c *holdfast.Client, name string, opts ...holdfast.Option) *RWMutex {
	client := (*engine.Client)(c)
	p := newProtocol(client.InRedis(name))
	return &RWMutex{newSide(client, writing{p}, false, opts), newSide(client, reading{p}, true, opts), p}
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
//   - [holdfast.ErrNotAcquired] if the wait was over first and others have the lock;
//   - [holdfast.ErrUnavailable] if Redis did not say who has it;
//   - [holdfast.ErrClosed] if the client was closed;
//   - [holdfast.ErrInvalid] for a bad argument;
//   - [holdfast.ErrLost] if the hold to be re-entered is lost;
//   - [holdfast.ErrNotReplicated], only with [holdfast.WithReplicas];
//   - otherwise an error of Redis.
//
// With the second and the third, errors.Is is true for the cause of the context too. After any error
// the lock is not held, and a grant that the server may have made is given back.
func (m *RWMutex) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := m.check("lock"); err != nil {
		return nil, err
	}
	h, err := m.write.Lock(ctx, opts...)
	return (*holdfast.Hold)(h), m.fail("lock", err)
}

// TryLock is Lock without waiting. If anybody else reads or writes, TryLock returns
// [holdfast.ErrNotAcquired] at once. It may overtake writers that wait, and keeps no reader out.
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
func (m *RWMutex) check(op string) error {
	if m == nil || m.write == nil {
		return &holdfast.Error{Op: op, Kind: kindName,
			Err: fmt.Errorf("%w: nil or zero RWMutex; make one with rwlock.New", holdfast.ErrInvalid)}
	}
	return nil
}

// fail wraps the error of an operation in a [holdfast.Error]. It returns nil for nil.
func (m *RWMutex) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &holdfast.Error{Op: op, Kind: kindName, Name: m.Name(), Err: err}
}
