package watchdog

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// The reasons that [Owner.Lost] is called with.
var (
	// ErrDeadline says that no renewal of a lease was confirmed in time. The lease may still exist
	// on the server.
	ErrDeadline = errors.New("the lease could not be renewed in time")
	// ErrEnded says that a lease without renewal is over. It may still exist on the server for a
	// moment, by the server's clock.
	ErrEnded = errors.New("its lease ended, and it was taken with NoRenewal")
	// ErrGone says that the server does not know the owner as the holder any more.
	ErrGone = errors.New("the server says that the lock is not held by this owner")
)

// Drift is the part by which the rates of clocks may differ: one in so many.
const Drift = 100

// Trust is how long a lease of this length may be trusted after the command that set it was sent: 1
// % less, because the server's clock may run that much faster than ours, and 2 ms less, because the
// server counts in whole milliseconds, once when the lease is set and once when the server checks
// whether it has ended. Never negative.
func Trust(length time.Duration) time.Duration {
	return max(0, length-length/Drift-2*time.Millisecond)
}

// Owner is the owner of a lease, which learns of a loss.
type Owner interface {
	// Lost is called at most once per Watch, from a goroutine of the watchdog's or by Expire, and
	// without its mutex. It must not block: deadlines of others wait for it.
	Lost(reason error)
}

// Lease is one hold under watch, meant to be a field of the owner. The zero value is ready for
// [Watchdog.Watch]; it must not be copied afterwards.
type Lease struct {
	guarded
	until atomic.Int64 // the deadline, in nanoseconds, for reads without the mutex
}

// guarded is what the watchdog's mutex guards.
type guarded struct {
	owner     Owner
	length    time.Duration // for renewals to come
	confirmed time.Duration // the length that was confirmed last
	renew     bool
	deadline  time.Duration // until when it is trusted. This and all moments as [Watchdog.now] counts them
	sent      time.Duration // when the newest confirmed command was sent
	backoff   time.Duration // the last one; 0 after a confirmation
	life      uint64        // counts Watch, Forget and Rest: a verdict of an earlier life does not count
	by        time.Duration // the latest time of one more renewal; 0: none wanted
	after     time.Duration // the time of one more renewal, whatever is renewed before; 0: none wanted
	attempt   uint64        // the newest one in this life; of older ones only Renewed and Gone count
	place     [heaps]int    // in each heap, counted from 1; 0: not in it
}

// over is the reason for which the lease is lost at its deadline.
func (l *Lease) over() error {
	if l.renew {
		return ErrDeadline
	}
	return ErrEnded
}

// watched reports whether the lease is in a watchdog: every watched lease has a deadline.
func (l *Lease) watched() bool { return l.place[ends] != 0 }

// nextDue is when a lease is due, if its ordinary renewal is due at the given time.
func (l *Lease) nextDue(at time.Duration) time.Duration {
	for _, moment := range []time.Duration{l.by, l.after} {
		if moment != 0 {
			at = min(at, moment)
		}
	}
	return at
}

// pace is the length by which renewals are timed. The length of a claim is shorter than the length
// to come.
func (l *Lease) pace() time.Duration { return min(l.length, l.confirmed) }

const (
	firstBackoff = 20 * time.Millisecond
	lastBackoff  = time.Second
)

// patience is how long an attempt may take: a tenth of the lease, so that several fit in before the
// deadline.
func patience(length time.Duration) time.Duration {
	return min(max(length/10, 20*time.Millisecond), 2*time.Second)
}

// overdue is the time without a verdict after which another attempt begins beside the first. It is
// a little more than the patience. So an attempt that obeys its context is followed by a backoff,
// and not by two attempts.
func overdue(length time.Duration) time.Duration { return patience(length) * 5 / 4 }

// slack is how early a renewal may come to share a batch with others. It is always less than
// overdue; otherwise a lease would be due again as soon as it is in a batch.
func slack(length time.Duration) time.Duration { return min(length/30, patience(length)/2) }

// nextBackoff doubles from 20 ms to a tenth of the lease, at most a second.
func nextBackoff(last, length time.Duration) time.Duration {
	return min(max(2*last, firstBackoff), max(length/10, time.Millisecond), lastBackoff)
}

// jitter shortens d by up to half, so that clients that lost their server together do not come back
// together.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1) //nolint:gosec // spreads load, guards nothing
}
