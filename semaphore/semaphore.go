// Package semaphore provides permits with leases on Redis: Redisson's RPermitExpirableSemaphore for
// Go. It uses the same keys, so Go and Java services can share the permits.
//
//	calls := semaphore.New(client, "partner-api", 8) // eight calls at a time, in all processes
//	hold, err := calls.Lock(ctx)
//
// The comment of package holdfast says what every kind of lock promises. It holds for the permits
// of an owner. Beyond that:
//
//   - No more permits are out than the semaphore has, unless [Semaphore.SetPermits] has reduced
//     their number.
//   - A hold has all the permits that its caller asked for, or there is no hold. The client renews
//     its lease. If the process dies, the permits come back by themselves when the lease ends.
//   - The server grants permits in the order of arrival, over all processes of this library. A
//     request waits for every earlier request, so requests for few permits do not overtake requests
//     for many. This also holds for TryLock and TryAcquire, which are refused while others wait.
//     Package fairlock says what becomes of a place in the queue when its client is out of reach.
//   - Leases end by the server's clock.
//
// Each hold is an owner of its own, so nothing is re-entered. A goroutine that holds all permits
// and waits for more waits for itself.
//
// # How many there are
//
// The number passed to [New] counts only if the server knows of none yet. After that the server's
// number counts, until [Semaphore.SetPermits] changes it, so give the same number everywhere. The
// server remembers the number for 30 days after the last grant by this library. It keeps a number
// that Redisson set for ever.
//
// # Not promised
//
//   - An order between clients of this library and of Redisson's. Redisson's clients take the
//     permits that are free at the moment, whoever waits. They do not renew their leases, and the
//     ends of these leases are counted by the clocks of their machines.
//   - That the client notices at once when a client of Redisson's gives a permit back. It mostly
//     does, because waiters listen to Redisson's clients if these have permits. Otherwise it takes
//     a second.
//   - That the server knows which permits are out after it has lost the semaphore's key (it evicts
//     keys, or somebody deletes the key). The holders of these permits learn of the loss at their
//     next renewal. The semaphore has that many permits fewer until [Semaphore.SetPermits] sets the
//     number. It never has more.
//   - Protection by fencing tokens. Each hold has a token that is greater than all before it, but
//     so have the holders of other permits.
//
// # Cost
//
// A grant takes one script, even after a wait, and so does a release. The first waiter of a client
// sends one more. The work of a script grows with the permits of its own hold, and not with those
// of others: to acquire or renew a thousand permits keeps the server busy for about 1.5 ms. So a
// hold has at most 10 000. If you need more, take several holds, or count in larger units.
//
// Package fairlock says what callers that stop waiting cost.
package semaphore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/fair"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/operr"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

var ops = operr.Kind{Name: kindName, New: "Semaphore; make one with semaphore.New"}

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

// New makes the semaphore called name on a client. permits is the number of permits, at least 1, if
// the server knows of none yet. opts are defaults for each acquisition. [rlock.Keep] and
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

// newLock makes the lock of a fair one's server, which several owners hold at once, and each but once.
func newLock(c *engine.Client, p *protocol, opts []engine.Option) *engine.Lock {
	b := fair.NewLock(c, p, opts...)
	b.Refine(func(t *engine.Traits) {
		t.Shared, t.NoReentry, t.HandsOff = true, true, false
		t.NoAtLeast = "permits come back when they are unlocked; leave the option out"
	}, p.explain)
	return b
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
	return s.acquire(ctx, "lock", (*engine.Lock).Lock, 1, opts)
}

// TryLock is TryAcquire of one permit.
func (s *Semaphore) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return s.acquire(ctx, "try", (*engine.Lock).TryLock, 1, opts)
}

// Acquire waits for n permits, at least 1 and at most 10 000, and gets all of them or none.
// [holdfast.Hold.Count] of the hold is n, and its Unlock gives all of them back. The context bounds
// the wait, and so does [holdfast.Wait].
//
// Errors:
//   - [holdfast.ErrNotAcquired] if the wait ended first. Its text says how many permits are free,
//     and how many others wait, as in "0 of 5 permits free, 3 waiting". If the semaphore has only
//     one permit, the text names its holder;
//   - [holdfast.ErrUnavailable] if Redis did not say who has the permits. A waiter with a place in
//     the queue keeps it while Redis is silent, and waits on: see package fairlock;
//   - [holdfast.ErrClosed] if the client was closed;
//   - [holdfast.ErrInvalid] for a bad argument, and if the semaphore has fewer than n permits, or
//     comes to have fewer while Acquire waits;
//   - [holdfast.ErrNotReplicated], only with [holdfast.Replicas];
//   - otherwise an error of Redis.
//
// With the first two, errors.Is is also true for the cause of the context. After any error the
// caller holds nothing, and the client gives back permits that the server may have granted.
func (s *Semaphore) Acquire(ctx context.Context, n int, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return s.acquire(ctx, "acquire", (*engine.Lock).Lock, n, opts)
}

// TryAcquire is Acquire without waiting. If fewer than n permits are free, or others wait, it returns
// [holdfast.ErrNotAcquired] at once.
func (s *Semaphore) TryAcquire(ctx context.Context, n int, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return s.acquire(ctx, "try to acquire", (*engine.Lock).TryLock, n, opts)
}

type locking func(*engine.Lock, context.Context, ...engine.Option) (*engine.Hold, error)

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
	h, err := lock(s.base, ctx, opts...)
	return (*holdfast.Hold)(h), s.fail(op, err)
}

// SetPermits sets the number of permits, at least 1, for all processes. Permits that are out stay
// out. If more are out than there are, the server grants none until enough of them have come back.
// Waiters that want more permits than there are get an error. A repeat of a call that got no answer
// changes nothing, even if another call was made since.
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
func (s *Semaphore) check(op string) error { return ops.Check(op, s != nil && s.base != nil) }

// fail wraps the error of an operation in a [holdfast.Error]. It returns nil for nil.
func (s *Semaphore) fail(op string, err error) error { return ops.Fail(op, s.Name(), err) }

// explain is [engine.Backend.Explain].
func (p *protocol) explain(err error) error {
	if lua.IsError(err, "HOLDFAST_PERMITS") {
		return errs.Both(errs.ErrInvalid, errs.Reworded(tooMany(err.Error())+"; ask for fewer, or raise their number with SetPermits", err))
	}
	k := p.keys
	return remote.Explain(err, k.Name, "a semaphore", k.Ends, k.Token, k.Queue, k.Places, k.Wants, k.Counts)
}

// refusal is what the script says of one who asks for more permits than there are.
var refusal = regexp.MustCompile(`(?s)HOLDFAST_PERMITS (\d+) permits were asked for, and the semaphore .* has (\d+)`)

// tooMany reads like "n is 4, and the semaphore has 3 permits".
func tooMany(text string) string {
	n := refusal.FindStringSubmatch(text)
	switch {
	case n == nil:
		return strings.TrimPrefix(text, "HOLDFAST_PERMITS ")
	case n[2] == "1":
		return fmt.Sprintf("n is %s, and the semaphore has 1 permit", n[1])
	}
	return fmt.Sprintf("n is %s, and the semaphore has %s permits", n[1], n[2])
}
