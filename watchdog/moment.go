package watchdog

import (
	"math"
	"time"
)

// Moments are counted from the watchdog's epoch, by the monotonic clock and the time that the
// machine slept meanwhile, which that clock leaves out on some systems: leases go on at the server.
// Timers do not count it, so the goroutine that keeps the time looks once in a glance while leases
// are watched, and whoever asks for one looks too.
const (
	forever = time.Duration(math.MaxInt64)
	never   = time.Duration(math.MinInt64)
	// glance is how late the goroutine that keeps the time notices a sleep, at most.
	glance = time.Second
)

// now is this moment.
func (w *Watchdog) now() time.Duration {
	now := w.clock.Now()
	return now.Sub(w.epoch) + w.sleptBy(now)
}

// at is the moment of a time. One from before a sleep was noticed counts as from before the sleep.
func (w *Watchdog) at(t time.Time) time.Duration { return t.Sub(w.epoch) + w.sleptBy(t) }

func (w *Watchdog) sleptBy(t time.Time) time.Duration {
	return w.clock.SleptBy(t)
}

// asleep is for how long the machine has slept, as far as that was noticed.
func (w *Watchdog) asleep() time.Duration {
	return w.clock.Slept()
}

// later is the moment so long after another.
func later(at, d time.Duration) time.Duration { return at + min(d, forever-max(at, 0)) }
