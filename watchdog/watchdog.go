package watchdog

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Verdict is what came of an attempt to renew.
type Verdict int

// The verdicts.
const (
	Unknown Verdict = iota // no answer, or one that may change: tried again until the deadline
	Renewed                // confirmed
	Gone                   // the owner does not hold the lock: lost at once
)

// Renewal is a lease that is due.
type Renewal struct {
	Owner   Owner
	Length  time.Duration // that the lease is to have
	Verdict Verdict       // set by Renew

	lease *Lease
	life  uint64
}

const (
	defaultBatch = 500
	// inFlight is how many batches are under way at most. More than one, because one may be stuck with a silent server
	// while the others reach theirs; few, so that 100 000 leases cost no more goroutines than one.
	inFlight     = 4
	firstBackoff = 20 * time.Millisecond
	// ahead is the part of a lease by which a renewal may come early to share a batch with others.
	ahead = 30
)

var (
	errStopped  = errors.New("watchdog stopped")
	errPatience = errors.New("renewal took too long")
)

// Config is what a watchdog needs.
type Config struct {
	// Renew renews a batch and sets the verdicts. It should return when ctx ends; what it has not decided by then is
	// tried again. It is called from several goroutines.
	Renew func(ctx context.Context, batch []Renewal)
	// MaxBatch is how many leases share a call of Renew at most. Default 500.
	MaxBatch int
}

// Watchdog watches any number of leases. Make one with [New], Stop it and Join it.
type Watchdog struct {
	cfg    Config
	ctx    context.Context // of renewals; ends with Stop
	cancel context.CancelCauseFunc
	poke   chan struct{} // 1-buffered: an earlier moment came up, look again. Coalesces, because one look sees all
	group  sync.WaitGroup

	mu       sync.Mutex // guards the rest and all leases; never held over Renew or Lost
	heap     leases
	running  bool      // the goroutine was started
	stopped  bool      // no more Watch
	wake     time.Time // when the goroutine wakes by itself; zero: not before it is poked
	inFlight int

	// alone is the control of a test: batches are renewed by the goroutine that keeps the time.
	alone bool
}

// New makes a watchdog. Its goroutine starts with the first lease.
func New(cfg Config) *Watchdog {
	if cfg.MaxBatch <= 0 {
		cfg.MaxBatch = defaultBatch
	}
	w := &Watchdog{cfg: cfg, poke: make(chan struct{}, 1)}
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	return w
}

// Watch begins to watch a lease that was granted by a command sent at sent, and renews it from a third of its length on
// if renew is set. It returns false after Stop. The lease must not be watched already.
func (w *Watchdog) Watch(l *Lease, o Owner, sent time.Time, length time.Duration, renew bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	life := l.life + 1
	*l = Lease{owner: o, length: length, renew: renew, life: life}
	l.confirm(sent)
	w.heap.add(l)
	if !w.running {
		w.running = true
		w.group.Go(w.run)
	}
	w.wakeFor(l)
	return true
}

// wakeFor pokes the goroutine if it would sleep too long for l. A lock that is taken and released again and again does
// not get here: its next look is always later than the one that the goroutine sleeps for.
func (w *Watchdog) wakeFor(l *Lease) {
	if w.wake.IsZero() || l.next.Before(w.wake) {
		w.wake = l.next
		w.pokeLocked()
	}
}

func (w *Watchdog) pokeLocked() {
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// Confirm notes that a command sent at sent has set the lease to length, for renewals to come too. renew can be switched
// on, not off. The deadline never moves back. A lease that is not watched is left alone.
func (w *Watchdog) Confirm(l *Lease, sent time.Time, length time.Duration, renew bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.place == 0 {
		return
	}
	l.length, l.renew = length, l.renew || renew
	l.confirm(sent)
	w.heap.fix(l)
	w.wakeFor(l)
}

// Forget ends the watch. It returns false if the lease was not watched: never, not any more, or because it is lost.
// Renewals that are under way are ignored, and none begins after it returned.
func (w *Watchdog) Forget(l *Lease) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.forgetLocked(l)
}

func (w *Watchdog) forgetLocked(l *Lease) bool {
	if l.place == 0 {
		return false
	}
	w.heap.remove(l)
	l.life++
	return true
}

// Deadline is until when the lease is trusted, also when it is watched no more.
func (w *Watchdog) Deadline(l *Lease) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return l.deadline
}

// Poke has the renewed leases that match looked at now. It goes through all of them.
func (w *Watchdog) Poke(match func(Owner) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []*Lease
	for _, l := range w.heap {
		if l.renew && match(l.owner) {
			found = append(found, l)
		}
	}
	now := time.Now()
	for _, l := range found {
		l.schedule(now)
		w.heap.fix(l)
	}
	if len(found) > 0 {
		w.wake = now
		w.pokeLocked()
	}
}

// Stop ends the watch of all leases, without telling their owners, and returns these. Goroutines in Renew have their
// context ended; [Watchdog.Join] waits for them.
func (w *Watchdog) Stop() []Owner {
	w.mu.Lock()
	w.stopped = true
	var rest []Owner
	for len(w.heap) > 0 {
		l := w.heap[0]
		rest = append(rest, l.owner)
		w.forgetLocked(l)
	}
	w.mu.Unlock()
	w.cancel(errStopped)
	return rest
}

// Join waits, after Stop, until all goroutines have ended. It takes as long as Renew does.
func (w *Watchdog) Join() { w.group.Wait() }
