// Package semaphore provides permits with leases on Redis: Redisson's RPermitExpirableSemaphore for
// Go. It uses the same keys, so Go and Java services can share the permits.
//
//	calls := semaphore.New(client, "partner-api", 8) // eight calls at a time, in all processes
//	hold, err := calls.Lock(ctx)
//
// The comment of package holdfast says what every kind of lock promises, for what an owner holds.
// Beyond that:
//
//   - No more permits are out than the semaphore has, unless [Semaphore.SetPermits] has made them
//     fewer.
//   - A hold has all the permits that were asked for, or there is no hold. Its lease is renewed; if its
//     process dies, the permits come back by themselves when the lease ends.
//   - Permits are granted in the order of arrival, over all processes of this library. Nobody is
//     granted any while somebody waits who came before, so who wants many is not starved by those who
//     want one. This also holds for TryLock and TryAcquire, which are refused while others wait. See
//     package fairlock for what places in the queue are worth when a client is out of reach.
//   - The clock is the server's.
//
// Each hold is an owner of its own: nothing is re-entered, and a goroutine that waits for permits
// while it holds all of them waits for itself.
//
// # How many there are
//
// The number that [New] takes counts where the server knows of none yet. After that the server's
// number counts, until [Semaphore.SetPermits] changes it, so give the same number everywhere. The
// server remembers it for 30 days after the last grant by this library. Where the number is
// Redisson's, it does so for ever.
//
// # Not promised
//
//   - An order between clients of this library and of Redisson's. Redisson's take what is free at the
//     moment, whoever waits. Nor are their leases renewed, and their ends are counted by the clocks of
//     their machines.
//   - That a permit which Redisson's client gives back is noticed at once. It mostly is, because
//     waiters listen to them where they are seen to have permits; else it takes a second.
//   - That permits which are out are known again when the server forgets the key that they stand in
//     (it evicts keys, or somebody deletes it). Their holders are told at the next renewal, and there
//     are so many fewer, until [Semaphore.SetPermits] says how many there are. There are never more.
//   - Protection by fencing tokens. Each hold has one that is greater than all before it, but the
//     holders of other permits have theirs, too.
//
// # Cost
//
// A grant is one script, also if it has to be waited for, and so is a release. The first waiter of a
// client sends one more. What a script does grows with the permits of the hold that it is for, and
// not with those of others: to acquire or renew a thousand keeps the server busy for about 1.5 ms. So
// a hold has at most 10 000. Who needs more takes several holds, or counts in larger units.
//
// What callers cost who leave is in the comment of package fairlock.
package semaphore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/lua"
)

// Semaphore is a semaphore by name. Any number of Semaphores, in any number of processes, with one
// name on one Redis are the same semaphore. Make one with [New]; it holds no resources and needs no
// closing. All methods are safe for concurrent use.
type Semaphore struct {
	base *engine.Lock
	wire *protocol
}

var _ holdfast.Locker = (*Semaphore)(nil)

// maxPermits is Redisson's greatest int.
const maxPermits = math.MaxInt32

// maxAtOnce is how many permits one hold has at most: see Cost in the package comment.
const maxAtOnce = 10_000

// New makes the semaphore called name on a client. permits is how many there are where the server
// knows of none yet, at least 1. opts are defaults for each acquisition. [holdfast.Keep] and
// [holdfast.HoldAtLeast] are refused. New sends nothing. For an invalid name, number, option or
// client, the first operation returns the error.
//
// The name is the key in Redis. If it contains a brace it must contain a hash tag, as in
// "partner:{42}". With the prefix of [holdfast.Options] it has at most 1024 bytes.
func New(c *holdfast.Client, name string, permits int, opts ...holdfast.Option) *Semaphore {
	client := (*engine.Client)(c)
	p := newProtocol(client.InRedis(name), permits)
	s := &Semaphore{base: newLock(client, p, opts), wire: p}
	if s.base.Err == nil {
		s.base.Err = checkPermits("permits", permits, maxPermits)
	}
	return s
}

func checkPermits(field string, n, most int) error {
	if n < 1 || n > most {
		return errs.Invalid("%s is %d; use at least 1 and at most %d", field, n, most)
	}
	return nil
}

// Name is the name of the semaphore in Redis.
func (s *Semaphore) Name() string {
	if s == nil || s.base == nil {
		return ""
	}
	return s.base.Name()
}

// Lock is Acquire of one permit.
func (s *Semaphore) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return s.acquire(ctx, "lock", s.lock, 1, opts)
}

// TryLock is TryAcquire of one permit.
func (s *Semaphore) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return s.acquire(ctx, "try", s.try, 1, opts)
}

// Acquire waits for n permits, at least 1 and at most 10 000, and gets all of them or none.
// [holdfast.Hold.Count] of the hold is n, and its Unlock gives all of them back. The context bounds
// the wait, and so does [holdfast.Wait].
//
// Errors:
//   - [holdfast.ErrNotAcquired] if the wait was over first;
//   - [holdfast.ErrUnavailable] if Redis did not say who has the permits. Who has a place in the queue
//     and hears nothing keeps it, and waits on: see package fairlock;
//   - [holdfast.ErrClosed] if the client was closed;
//   - [holdfast.ErrInvalid] for a bad argument, and if the semaphore does not have so many permits, or
//     comes to have fewer while Acquire waits;
//   - [holdfast.ErrNotReplicated], only with [holdfast.WithReplicas];
//   - otherwise an error of Redis.
//
// With the first two, errors.Is is true for the cause of the context too. After any error nothing is
// held, and permits that the server may have granted are given back.
func (s *Semaphore) Acquire(ctx context.Context, n int, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return s.acquire(ctx, "acquire", s.lock, n, opts)
}

// TryAcquire is Acquire without waiting. If fewer than n permits are free, or others wait, it returns
// [holdfast.ErrNotAcquired] at once.
func (s *Semaphore) TryAcquire(ctx context.Context, n int, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return s.acquire(ctx, "try to acquire", s.try, n, opts)
}

type locking func(context.Context, []engine.Option) (*engine.Hold, error)

func (s *Semaphore) lock(ctx context.Context, opts []engine.Option) (*engine.Hold, error) {
	return s.base.Lock(ctx, opts...)
}

func (s *Semaphore) try(ctx context.Context, opts []engine.Option) (*engine.Hold, error) {
	return s.base.TryLock(ctx, opts...)
}

func (s *Semaphore) acquire(ctx context.Context, op string, lock locking, n int, opts []holdfast.Option) (*holdfast.Hold, error) {
	if err := s.check(op); err != nil {
		return nil, err
	}
	if err := checkPermits("n", n, maxAtOnce); err != nil {
		if n > maxAtOnce {
			err = errs.Both(err, errors.New("take several holds, or count in larger units"))
		}
		return nil, s.fail(op, err)
	}
	if n > 1 {
		opts = append(opts[:len(opts):len(opts)], engine.Count(n))
	}
	h, err := lock(ctx, opts)
	return (*holdfast.Hold)(h), s.fail(op, err)
}

// SetPermits sets how many permits there are, at least 1, for all processes. Those that are out stay
// out, also if there are more of them: then nothing is granted until enough of them have come back.
// Waiters who want more than there are get an error. A repeat of a call that got no answer changes
// nothing, also if another call was made since.
func (s *Semaphore) SetPermits(ctx context.Context, permits int) error {
	const op = "set permits"
	if err := s.check(op); err != nil {
		return err
	}
	if err := checkPermits("permits", permits, maxPermits); err != nil {
		return s.fail(op, err)
	}
	if err := s.base.CheckLength(s.base.Key.Name); err != nil {
		return s.fail(op, err)
	}
	if err := s.base.MayAsk(ctx); err != nil {
		return s.fail(op, err)
	}
	c := s.base.Client
	more := kind.Millis(2*c.Session().Budget()) + 10_000               // Query repeats it for the budget; it may come later still
	this := "set " + strings.ReplaceAll(c.NewOwnerID(false), ":", " ") // not the name of an owner
	o, err := s.base.Query(ctx, engine.Changes, func(publish string) lua.Call {
		return s.wire.set(permits, publish, c.Server().Clock.Limit(), this, more)
	})
	if refused := o.Reply.Unannounced(); err == nil && refused != "" {
		err = engine.Unheard(s.base, refused)
	}
	return s.fail(op, err)
}

// check returns an error for a zero or nil Semaphore, so that its methods do not panic.
func (s *Semaphore) check(op string) error {
	if s == nil || s.base == nil {
		return &holdfast.Error{Op: op, Kind: kindName,
			Err: fmt.Errorf("%w: nil or zero Semaphore; make one with semaphore.New", holdfast.ErrInvalid)}
	}
	return nil
}

// fail wraps the error of an operation in a [holdfast.Error]. It returns nil for nil.
func (s *Semaphore) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &holdfast.Error{Op: op, Kind: kindName, Name: s.Name(), Err: err}
}
