// Package workload uses locks at random and records what comes of it, for package history to check.
//
// An [Actor] is one goroutine of a client. It locks, tries, waits for a while or until it is cancelled, re-enters, looks at its
// hold count, extends, unlocks (under a context that is cancelled already, at times) and does so again, under owners that it
// keeps for some rounds. It uses any kind of lock, and runs in real and in virtual time alike. [Places] records what is seen of
// queues.
//
// Kinds that do more have actors of their own: [ReadWriter], [Taker] (of permits), [Counter] (of
// latches), [Candidate] and [Observer] (of elections).
//
// Not promised: that two runs with one seed do the same. The choices are the same; what is chosen
// for depends on who gets a lock first, which only virtual time repeats.
package workload

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
)

// Config is what actors do.
type Config struct {
	// Lock makes the lock of a name on the actor's client.
	Lock func(name string) Locker
	// Name chooses the lock of a round.
	Name func(rng *rand.Rand) string
	// Think is the mean pause between rounds, Hold between a holder's operations, and Wait the mean of limited waits.
	Think, Hold, Wait time.Duration
	// Leases are what holds are locked and re-entered with; 0: the client's, which is Lease. Plain makes one hold in so many an
	// unrenewed lease, 0 none. Extends are what holds are extended to, longer and shorter than asked for, if any.
	Lease           time.Duration
	Leases, Extends []time.Duration
	Plain           int
	// Stays are for how long locks stay taken, whenever they are unlocked: one in Staying of those asked for, none if it is 0.
	Stays   []time.Duration
	Staying int
	// Keeps are for how long clients keep locks after their unlock: one in Keeping of those asked for, none if it is 0.
	Keeps   []time.Duration
	Keeping int
	// Other makes another kind of lock of the name, of which a holder is refused one; nil: nobody tries.
	Other func(name string) Locker
	// Hurry is a round trip's time: callers have a few, or none, and some are cancelled within it or before. 0: no hurry.
	Hurry time.Duration
	// Patience bounds every wait.
	Patience time.Duration
	// Haste is that of the actor.
	Haste Haste
	// Round changes all these times, if it is there: for virtual time in which much is to happen at one moment.
	Round func(time.Duration) time.Duration
	// Granted is the hook of the actor's client that tells grants of the server from hand-offs; nil: they are not told apart.
	Granted *Granted
	// Permits is how many a semaphore has until somebody sets their number, which is to one of Sets; none: nobody does.
	Permits int
	Sets    []int
	// Lasts is for how long a latch lasts without a word; 0: as it does without an option.
	Lasts time.Duration
	// Now is the clock of the recorder.
	Now func() int64
}

// Locker is a lock that can be asked for its state.
type Locker interface {
	holdfast.Locker
	State(ctx context.Context) (holdfast.State, error)
}

// Actor is one goroutine that uses locks. It is not safe for concurrent use.
type Actor struct {
	Config
	rec    *history.Recorder
	rng    *rand.Rand
	client int
	number int
	of     history.Family   // of its locks
	c      *holdfast.Client // that it makes them on, if it is not Lock that does
	owner  context.Context  // carries the owner of these rounds, if they share one
}

// New makes an actor of a client. number tells it from the others of that client.
func New(cfg Config, rec *history.Recorder, client, number int, rng *rand.Rand) *Actor {
	return &Actor{Config: cfg, rec: rec, rng: rng, client: client, number: number}
}

// Runner is an actor of any kind.
type Runner interface{ Run(ctx context.Context) }

// NewOf makes an actor of one kind of lock, on a client. Kinds other than the first ignore Lock, Other, Stays and Keeps.
func NewOf(kind history.Family, c *holdfast.Client, cfg Config, rec *history.Recorder, client, number int, rng *rand.Rand) Runner {
	a := New(cfg, rec, client, number, rng)
	if kind == history.Locks {
		return a
	}
	a.of, a.c = kind, c
	a.Staying, a.Keeping, a.Granted = 0, 0, nil
	switch kind {
	case history.ReadWrite:
		return &ReadWriter{Actor: a}
	case history.Permits:
		return &Taker{Actor: a}
	case history.Latches:
		return &Counter{a}
	}
	return &Candidate{Actor: a, own: make(map[string]*election.Election)}
}

// Run does rounds until ctx ends or the client is closed. What is locked then is unlocked.
func (a *Actor) Run(ctx context.Context) { a.again(ctx, a.round) }

// again does rounds until ctx ends or one of them says that the client was closed.
func (a *Actor) again(ctx context.Context, round func(context.Context) bool) {
	a.owner = nil // it ends with the context of an earlier run
	for ctx.Err() == nil && round(ctx) {
		a.rest(ctx)
	}
}

// round locks and unlocks once. It is false when the client was closed.
func (a *Actor) round(ctx context.Context) bool {
	switch chance := a.rng.IntN(16); { // an owner of its own for some rounds, else a fresh one for each
	case chance < 4:
		a.owner = holdfast.WithOwner(ctx)
	case a.owner == nil, chance < 7:
		a.owner = ctx
	}
	name := a.Name(a.rng)
	m := a.Lock(name)
	nested := a.rng.IntN(2) == 0
	owner := a.owner
	if !nested && owner == ctx {
		owner = holdfast.WithOwner(ctx) // re-entries have to be made under something that carries it
	}
	owner = context.WithValue(owner, actorKey{}, a)
	lockCtx, cancel := context.WithCancel(owner) // the hold's context derives from it
	defer cancel()
	h, plain, err := a.lock(lockCtx, cancel, m, name)
	if err != nil {
		return !errors.Is(err, holdfast.ErrClosed)
	}
	again := lockCtx
	if nested {
		again = h.Context()
	}
	r := a.begin(again, m, h, nested, plain)
	for range a.rng.IntN(4) {
		held := r.holds[0].Context() // the first one may have been unlocked, and this one another
		Sleep(held, a.random(a.Hold))
		r.act(held)
	}
	r.leave(ctx)
	return true
}

// lock makes one attempt of a random kind to get the lock, perhaps without renewal. cancel ends ctx.
func (a *Actor) lock(ctx context.Context, cancel func(), m Locker, name string) (h *holdfast.Hold, plain bool, err error) {
	op := history.Op{Name: name, Kind: history.Lock}
	opts := a.options(&op)
	if a.Keeping > 0 && a.rng.IntN(a.Keeping) == 0 {
		keep := a.Keeps[a.rng.IntN(len(a.Keeps))]
		opts, op.Keep = append(opts, rlock.Keep(keep)), int64(keep)
	}
	op, opts, stop := a.impatient(op, opts, cancel)
	defer stop()
	h, err = a.attempt(ctx, op, m, opts)
	return h, op.Plain, err
}

// impatient makes a Lock wait forever, for a while or until it is cancelled, or a TryLock. stop is to be called after it.
func (a *Actor) impatient(op history.Op, opts []holdfast.Option, cancel func()) (_ history.Op, _ []holdfast.Option,
	stop func()) {
	if a.Haste.Longest > 0 {
		return a.hasty(op, opts, cancel)
	}
	opts = append(opts, holdfast.Wait(a.Patience))
	if a.Hurry > 0 {
		return a.hurried(op, opts, cancel)
	}
	switch a.rng.IntN(8) {
	case 0, 1:
		op.Kind = history.Try
	case 2:
		opts = append(opts, holdfast.Wait(a.random(a.Wait)))
	case 3:
		timer := time.AfterFunc(a.random(a.Wait), cancel)
		return op, opts, func() { timer.Stop() }
	}
	return op, opts, func() {}
}

// hurried is impatient for one who has a few round trips' time at most.
func (a *Actor) hurried(op history.Op, opts []holdfast.Option, cancel func()) (_ history.Op, _ []holdfast.Option, stop func()) {
	some := func() time.Duration { return time.Duration(a.rng.Float64() * trips * float64(a.Hurry)) }
	opts = append(opts, holdfast.Wait(some()))
	switch a.rng.IntN(8) {
	case 0:
		op.Early = true
		cancel()
	case 1:
		switch a.of {
		case history.Elections: // which nobody asks once for
		case history.Latches:
			opts = append(opts, holdfast.Wait(0))
		default:
			op.Kind, opts = history.Try, append(opts, holdfast.Wait(a.Patience))
		}
	case 2, 3, 4:
		timer := time.AfterFunc(some(), cancel)
		return op, opts, func() { timer.Stop() }
	}
	return op, opts, func() {}
}

// trips is how many round trips one in a hurry has.
const trips = 6

// attempt locks or tries to, and records it.
func (a *Actor) attempt(ctx context.Context, op history.Op, m holdfast.Locker, opts []holdfast.Option) (
	h *holdfast.Hold, err error) {
	op.Client, op.Actor = a.client, a.number
	ctx, asked := asking(ctx)
	begun := op
	begun.Owner = "" // it is granted nothing yet
	call := a.rec.Begin(begun)
	lock := m.Lock
	if op.Kind == history.Try {
		lock = m.TryLock
	}
	h, err = survived(func() (*holdfast.Hold, error) { return lock(ctx, opts...) })
	call.End(func(o *history.Op) {
		note(o, err)
		o.Asked = asked()
		switch {
		case op.Of != history.Elections || o.Result != history.Unknown:
		case errors.Is(err, holdfast.ErrLost):
			o.Result = history.Lost // before it was announced, perhaps
		case ctx.Err() != nil, strings.Contains(err.Error(), "could not be announced within the time of the call"):
			o.Result = history.Left // it may have announced itself, and that is undone
		}
		if h != nil {
			o.Owner, o.Token, o.Deadline = cmp.Or(op.Owner, h.Owner()), h.Token(), a.until(h)
			o.Handed = a.Granted != nil && !a.Granted.by(op.Name, h.Owner(), h.Token())
			if op.Of == history.Permits {
				o.Depth = h.Count()
			}
		}
	})
	return h, err
}

// until is a hold's deadline by the recorder's clock; 0: it has none. A pause between two clocks' readings repeats them.
func (a *Actor) until(h *holdfast.Hold) int64 {
	for {
		at := a.Now()
		deadline := h.Deadline()
		if deadline.IsZero() {
			return 0
		}
		left := int64(time.Until(deadline))
		if a.Now()-at < int64(10*time.Millisecond) {
			return at + left
		}
	}
}

// options chooses what a lock is asked for with, and notes it.
func (a *Actor) options(o *history.Op) (opts []holdfast.Option) {
	o.Lease = int64(a.Lease)
	if len(a.Leases) > 0 {
		if lease := a.Leases[a.rng.IntN(len(a.Leases))]; lease > 0 {
			opts, o.Lease = append(opts, holdfast.Lease(lease)), int64(lease)
		}
	}
	if a.Plain > 0 && a.rng.IntN(a.Plain) == 0 {
		opts, o.Plain = append(opts, holdfast.NoRenewal()), true
	}
	if a.Staying > 0 && a.rng.IntN(a.Staying) == 0 {
		stay := a.Stays[a.rng.IntN(len(a.Stays))]
		opts, o.Least = append(opts, holdfast.HoldAtLeast(stay)), int64(stay)
	}
	return opts
}

// random is a duration with this mean, short ones being the most frequent, so that many interleavings happen.
func (a *Actor) random(mean time.Duration) time.Duration {
	d := time.Duration(min(a.rng.ExpFloat64(), 8) * float64(mean))
	if a.Round != nil {
		return a.Round(d)
	}
	return d
}

// Sleep waits, and is false if ctx ended meanwhile.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// note puts down how an operation ended.
func note(o *history.Op, err error) {
	if err != nil {
		o.Error = err.Error()
	}
	o.Panic = ofPanic(err)
	asks := o.Kind == history.Lock || o.Kind == history.Try || o.Kind == history.Reenter
	silent := errors.Is(err, holdfast.ErrUnavailable)
	o.Outage = silent
	over := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		err != nil && strings.Contains(err.Error(), "waited as long as Wait allows") // which bounds a TryLock, too
	if asks || o.Kind == history.Wait {
		o.Taken = errors.Is(err, holdfast.ErrNotAcquired)
	}
	switch {
	case err == nil:
		o.Result = history.OK
	case o.Kind == history.Try && errors.Is(err, holdfast.ErrNotAcquired) && !silent && !over:
		o.Result = history.Denied
	case errors.Is(err, redis.ErrClosed): // which is closed after the client, under who is still at it
		o.Result = history.Closed
	case errors.Is(err, holdfast.ErrUncertain):
		o.Result = history.Unknown
	case errors.Is(err, holdfast.ErrClosed):
		o.Result = history.Closed
	case errors.Is(err, rwlock.ErrUpgrade), errors.Is(err, holdfast.ErrInvalid), asks &&
		(strings.Contains(err.Error(), "WRONGTYPE") || strings.Contains(err.Error(), "so it is not a lock")):
		// Waiting would not help: it reads and wants to write, or something else is there.
		o.Result = history.Refused
	case errors.Is(err, holdfast.ErrLost):
		o.Result = history.Lost
	case errors.Is(err, holdfast.ErrReleased):
		o.Result = history.Released
	case errors.Is(err, holdfast.ErrNotAcquired), asks && (silent || over):
		o.Result = history.Left
	default:
		o.Result = history.Unknown
	}
}

// record does an operation, and records it.
func (a *Actor) record(op history.Op, do func() error) {
	call := a.rec.Begin(op)
	err := survive(do)
	call.End(func(o *history.Op) { note(o, err) })
}

// Closed is what Close of a client did wrong. That locks are left is no mistake where servers do not answer, or refuse.
func Closed(err error) error {
	if errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrUncertain) || lua.IsDenied(err) {
		return nil
	}
	return err
}
