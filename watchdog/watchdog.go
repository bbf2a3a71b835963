package watchdog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/suspend"
)

// Verdict is the outcome of an attempt to renew.
type Verdict int

// The verdicts. A renewal without an answer has the zero value.
const (
	Unknown Verdict = iota // no answer, or one that may change: tried again until the deadline
	Renewed                // confirmed: the lease has the length of the Renewal, or more
	Gone                   // the owner does not hold the lock: lost at once
)

// Renewal is a lease that is due.
type Renewal struct {
	Owner   Owner         // as given to Watch
	Length  time.Duration // the length to set, as it was when the batch was sent
	Verdict Verdict       // set by Renew
	Err     error         // of an attempt without a verdict, for [Config.Judged]; may be set by Renew

	lease   *Lease
	pace    time.Duration // the lease's pace at that time
	life    uint64
	attempt uint64
}

const defaultBatch = 500

// The causes with which the context of a renewal ends.
var (
	errStopped  = errors.New("the watchdog was stopped")
	errPatience = errors.New("the renewal took too long and is tried again")
	errReturned = errors.New("the renewal has returned")
)

// Config is what a watchdog needs.
type Config struct {
	// Renew renews a batch and sets the verdicts. It is called from several goroutines, and must
	// neither keep the batch nor change its order. It should return when ctx ends; renewals without
	// a verdict are then tried again. Until it returns, it occupies one of the four places for
	// batches of its lane, but it delays no deadline.
	Renew func(ctx context.Context, batch []Renewal)
	// Lane separates leases that must not wait for each other: those of different servers, because
	// one server may hang. Owners with equal lanes share batches and places, others never do. The
	// result is used as a key of maps. Lane is called for each attempt, with the mutex of the
	// watchdog held, so it must neither block nor call the watchdog. nil: all owners have one lane.
	Lane func(Owner) any
	// Judged is called with the renewals of a batch when their verdicts count, and how much of the trust
	// in each lease was left at that moment: nothing, if its deadline had passed. Leases that were
	// forgotten meanwhile are not among them. It is called without the mutex by the goroutine that called
	// Renew, and must neither block nor keep the slices. nil: no call is made.
	Judged func(batch []Renewal, left []time.Duration)
	// MaxBatch is how many leases share a call of Renew at most. Default 500.
	MaxBatch int
}

// Watchdog watches any number of leases. Make one with [New], Stop it and Join it. Its methods may
// be called from any goroutine, also from Renew and Lost, except Join.
type Watchdog struct {
	cfg    Config
	clock  *suspend.Clock
	epoch  time.Time       // moments in the heaps and leases count from here; see now
	ctx    context.Context // of renewals; ends with Stop
	cancel context.CancelCauseFunc
	poke   chan struct{} // 1-buffered: there is an earlier moment. One token is enough, because one look sees all
	group  sync.WaitGroup

	mu      sync.Mutex // guards the rest and all leases; never held over Renew or Lost
	ends    leases
	turns   leases
	lanes   lanes
	running bool          // the goroutine was started
	stopped bool          // no more Watch
	wake    time.Duration // when the goroutine looks next without being poked
	slept   time.Duration // how long the machine had slept when the timer was set for wake
	doubts  int64         // the clock's doubts for which all leases were renewed
}

// New makes a watchdog. Its goroutine starts with the first lease.
func New(cfg Config) *Watchdog {
	if cfg.MaxBatch <= 0 {
		cfg.MaxBatch = defaultBatch
	}
	w := &Watchdog{
		cfg: cfg, clock: suspend.System, epoch: suspend.System.Now(), poke: make(chan struct{}, 1), wake: forever,
		ends: leases{kind: ends}, turns: leases{kind: turns}, lanes: make(lanes),
	}
	w.doubts = w.clock.Doubts()
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	return w
}

// Watch begins to watch a lease that was granted by a command sent at sent, a time from
// [suspend.Clock.Now], and renews it from a third of its length on if renew is set. It returns
// false after Stop. A lease that is watched already is watched anew.
func (w *Watchdog) Watch(l *Lease, o Owner, sent time.Time, length time.Duration, renew bool) bool {
	return w.watch(l, o, sent, length, length, renew)
}

// Claim is Watch for a lease that at first lasts only for claim, and gets its full length with its
// first renewal. That renewal comes after a third of the claim.
func (w *Watchdog) Claim(l *Lease, o Owner, sent time.Time, claim, length time.Duration) bool {
	return w.watch(l, o, sent, claim, length, true)
}

func (w *Watchdog) watch(l *Lease, o Owner, sent time.Time, ttl, length time.Duration, renew bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	w.forgetLocked(l)
	l.guarded = guarded{owner: o, length: length, renew: renew, deadline: never, sent: w.at(sent), life: l.life + 1}
	w.confirmLocked(l, sent, ttl)
	if !w.running {
		w.running = true
		w.group.Go(w.run)
	}
	return true
}

// confirmLocked notes that the lease lasts for length, counted from sent.
func (w *Watchdog) confirmLocked(l *Lease, sent time.Time, length time.Duration) {
	trust := Trust(length)
	at := w.at(sent)
	if deadline := later(at, trust); deadline > l.deadline {
		l.deadline = deadline
		l.until.Store(int64(deadline))
		w.put(&w.ends, l, deadline)
	}
	l.sent = max(l.sent, at) // confirmations overtake each other
	l.confirmed = length
	l.backoff = 0
	l.attempt++ // a failure of attempts under way does not matter any more
	if l.renew {
		w.put(&w.turns, l, l.nextDue(later(l.sent, l.pace()/3)))
	}
}

// put also pokes the goroutine if it would sleep too long. A lock that is taken and released again
// and again pokes it only once: its later moments come after the moment for which the goroutine
// sleeps since then.
func (w *Watchdog) put(h *leases, l *Lease, at time.Duration) {
	h.put(l, at)
	w.wakeBy(at)
}

func (w *Watchdog) wakeBy(at time.Duration) {
	slept := w.slept // a timer that was set before the machine slept is late
	if w.slept = w.asleep(); at >= w.wake && slept == w.slept {
		return
	}
	w.wake = min(w.wake, at)
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// Confirm notes that a command sent at sent has set the lease to length or left it longer, and
// renews it at this length from now on. Renewal can be switched on, not off, see
// [Watchdog.StopRenewing]. The deadline never moves back. It returns false, and leaves the lease
// alone, if the lease is not watched or its deadline has passed: its owner's Lost is then called,
// or has been.
func (w *Watchdog) Confirm(l *Lease, sent time.Time, length time.Duration, renew bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !l.watched() || l.deadline <= w.now() {
		return false
	}
	l.length, l.renew = length, l.renew || renew
	w.confirmLocked(l, sent, length)
	return true
}

// Forget ends the watch. It returns false if there is nothing to end: the lease was never watched,
// is not watched any more, or is lost, even if its deadline has only just passed and Lost has not
// been called yet. Verdicts of renewals under way are ignored, and no renewal begins after Forget
// has returned. A renewal begins when its send time is taken: the server may see its command later.
func (w *Watchdog) Forget(l *Lease) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !l.watched() || l.deadline <= w.now() {
		return false
	}
	w.forgetLocked(l)
	return true
}

func (w *Watchdog) forgetLocked(l *Lease) {
	w.ends.remove(l)
	w.turns.remove(l)
	l.life++
}

// RenewBy makes a renewed lease be renewed once after d at the latest, whatever is confirmed until then.
// An ordinary renewal before that counts. This renewal is not moved forward to share a batch with
// others, because the event that it must follow may not be over then.
func (w *Watchdog) RenewBy(l *Lease, d time.Duration) {
	w.renewAt(l, func(now time.Duration) {
		if l.by == 0 {
			l.by = now + d
		}
	})
}

// RenewAfter makes a renewed lease be renewed once when d is over, even if it is renewed before, because
// the event that this renewal must follow is not over then. Of several such moments the last one
// counts.
func (w *Watchdog) RenewAfter(l *Lease, d time.Duration) {
	w.renewAt(l, func(now time.Duration) { l.after = max(l.after, now+d) })
}

func (w *Watchdog) renewAt(l *Lease, note func(now time.Duration)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := l.place[turns] - 1
	if i < 0 {
		return
	}
	note(w.now())
	if due := w.turns.entries[i].at; l.nextDue(due) < due {
		w.put(&w.turns, l, l.nextDue(due))
	}
}

// StopRenewing ends the renewal of a lease, but not the watch: it is lost at its deadline, unless it is
// confirmed again. As after Forget, verdicts of renewals that are under way are ignored.
func (w *Watchdog) StopRenewing(l *Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.renew = false
	l.life++
	w.turns.remove(l)
}

// Deadline is the time until which the lease is trusted, even if it is not watched any more. It is
// the zero time if the lease was never watched.
func (w *Watchdog) Deadline(l *Lease) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.life == 0 {
		return time.Time{}
	}
	return w.epoch.Add(l.deadline - w.sleptBy(w.clock.Now()))
}

// Reason is why a lease is lost when its deadline has passed: [ErrDeadline] or [ErrEnded].
func (w *Watchdog) Reason(l *Lease) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return l.over()
}

// Over reports whether the deadline of a lease that is or was watched has passed. It takes no
// mutex, so that it can be asked often.
func (w *Watchdog) Over(l *Lease) bool { return int64(w.now()) >= l.until.Load() }

// Expire calls the Lost of the owner of a lease whose deadline has passed. The goroutine that keeps
// the time usually does this, but after a pause of the process it may not have run yet. Expire
// returns false if there is nothing to do: the lease was confirmed meanwhile, or it is not watched
// any more, so that Lost has been called or is about to be.
func (w *Watchdog) Expire(l *Lease) bool {
	w.mu.Lock()
	if !l.watched() || l.deadline > w.now() {
		w.mu.Unlock()
		return false
	}
	o, reason := l.owner, l.over()
	w.forgetLocked(l)
	w.mu.Unlock()
	o.Lost(reason)
	return true
}

// RenewNow renews the matching renewed leases now. It goes through all of them with the
// mutex held, so it is for rare events, and match must not call the watchdog.
func (w *Watchdog) RenewNow(match func(Owner) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pokeLocked(match, w.now())
}

func (w *Watchdog) pokeLocked(match func(Owner) bool, now time.Duration) {
	var found []*Lease // collected first, because moving leases reorders the entries
	for _, e := range w.turns.entries {
		if match(e.l.owner) {
			found = append(found, e.l)
		}
	}
	for _, l := range found {
		l.attempt++ // the failure of an attempt under way does not delay this one
		w.put(&w.turns, l, now)
	}
}

// Busy reports whether any lease is watched.
func (w *Watchdog) Busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends.len() > 0
}

// Each calls f with the owner of each lease. As RenewNow it is for rare events, and f must not call the
// watchdog.
func (w *Watchdog) Each(f func(Owner)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.ends.entries {
		f(e.l.owner)
	}
}

// Stop ends the watch of all leases and returns their owners, without calling Lost. It ends the
// contexts of running calls of Renew. [Watchdog.Join] waits for those calls. Join is separate so
// that the caller can bound the wait for a Renew that ignores its context, and release the leases
// meanwhile. For leases that were lost before Stop, Lost may be called until Join returns.
func (w *Watchdog) Stop() []Owner {
	w.mu.Lock()
	w.stopped = true
	var rest []Owner
	for _, e := range w.ends.entries {
		rest = append(rest, e.l.owner)
		e.l.place = [heaps]int{}
		e.l.life++
	}
	w.ends.entries, w.turns.entries = nil, nil
	w.mu.Unlock()
	w.cancel(errStopped)
	return rest
}

// Join waits, after Stop, until all goroutines have ended. It takes as long as Renew does.
func (w *Watchdog) Join() { w.group.Wait() }
