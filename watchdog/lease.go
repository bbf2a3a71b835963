package watchdog

import (
	"errors"
	"time"
)

// The reasons that an owner is given for a loss.
var (
	// ErrDeadline says that nobody confirmed the lease in time. It may stand on the server all the same.
	ErrDeadline = errors.New("the lease could not be renewed in time")
	// ErrGone says that the server does not know the owner as the holder any more.
	ErrGone = errors.New("the server says that the lock is not held by this owner")
)

// Trust is how long a lease of this length may be trusted after the command that set it was sent: 1 % less, because the
// server's clock may run that much faster than ours, and 2 ms less for the granularity of both. Never negative.
func Trust(length time.Duration) time.Duration {
	return max(0, length-length/100-2*time.Millisecond)
}

// Owner is who is told of a loss.
type Owner interface {
	// Lost is called at most once per Watch, from a goroutine of the watchdog's and without its mutex. It must not block.
	Lost(reason error)
}

// Lease is one hold under watch, meant to be a field of the owner. The zero value is ready for [Watchdog.Watch]; it must
// not be copied afterwards. Its fields are guarded by the watchdog's mutex.
type Lease struct {
	owner    Owner
	length   time.Duration
	renew    bool
	deadline time.Time // until when it is trusted
	next     time.Time // when the next attempt is due; at most the deadline
	backoff  time.Duration
	life     uint64 // counts Watch and Forget: a verdict of an earlier life is not for this one
	place    int    // in the heap, counted from 1; 0: not watched
}

// confirm notes that the lease stands since sent.
func (l *Lease) confirm(sent time.Time) {
	if deadline := sent.Add(Trust(l.length)); deadline.After(l.deadline) {
		l.deadline = deadline
	}
	l.backoff = 0
	l.schedule(sent.Add(l.length / 3))
}

// schedule sets when the lease is looked at next.
func (l *Lease) schedule(at time.Time) {
	if !l.renew || at.After(l.deadline) {
		at = l.deadline
	}
	l.next = at
}

// patience is how long an attempt may take before another one is made beside it: a tenth of the lease, so that several
// fit in between the first attempt and the deadline.
func patience(length time.Duration) time.Duration {
	return min(max(length/10, 20*time.Millisecond), 2*time.Second)
}
