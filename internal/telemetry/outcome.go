package telemetry

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/watchdog"
)

// Outcomes of a Lock or TryLock that was not granted; those of one that was are of [event.How].
const (
	Refused     = "refused"     // somebody else has it, and the call was not to wait
	TimedOut    = "timed_out"   // the time of Wait was over, or the context's
	Canceled    = "canceled"    // the caller, or the end of the client, ended the wait
	Unavailable = "unavailable" // no server said who has it
	Failed      = "error"       // anything else
)

// Outcomes are all that a call may have.
var Outcomes = []string{
	event.Asked.String(), event.HandedOn.String(), event.FromKept.String(), event.Reentered.String(),
	Refused, TimedOut, Canceled, Unavailable, Failed,
}

// Outcome is why a call was not granted. ctx is the call's, and once says that it was a TryLock.
//
// The context comes before the outage: somebody who stops waiting is no reason for an alarm, although
// the error says, rightly, that no server had answered by then.
func Outcome(ctx context.Context, once bool, err error) string {
	switch {
	case errors.Is(err, holdfast.ErrClosed), errors.Is(err, context.Canceled),
		errors.Is(context.Cause(ctx), context.Canceled):
		return Canceled
	case errors.Is(err, holdfast.ErrUnavailable):
		return Unavailable
	case errors.Is(err, holdfast.ErrNotAcquired) && once:
		return Refused
	case errors.Is(err, holdfast.ErrNotAcquired), errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case ctx.Err() != nil: // cancelled with a cause of the user's
		return Canceled
	}
	return Failed
}

// Reasons of a loss.
const (
	Silent = "silent"      // no renewal was confirmed in time
	Gone   = "gone"        // the server says that the owner does not hold the lock any more
	Ended  = "not_renewed" // a lease without renewal was over before Unlock
	Else   = "other"       // such as a member of a multilock
)

// Reasons are all of them.
var Reasons = []string{Silent, Gone, Ended, Else}

// Reason is why a hold was lost.
func Reason(err error) string {
	switch {
	case errors.Is(err, watchdog.ErrEnded):
		return Ended
	case errors.Is(err, watchdog.ErrGone):
		return Gone
	case errors.Is(err, watchdog.ErrDeadline):
		return Silent
	}
	return Else
}

// Outcomes of an attempt to renew a lease.
const (
	InTime = "in_time" // at least a third of the lease was left: there was time for another attempt
	Late   = "late"    // renewed, with less than a third left: the next trouble of this size is a loss
	Again  = "failed"  // not renewed, and tried again
	Lost   = "lost"    // the server says that the lease is gone
)

// Renewals are all of them.
var Renewals = []string{InTime, Late, Again, Lost}

// Renewal is how an attempt ended. slack is the part of the lease that was left; it counts if the
// lease was renewed.
func Renewal(r event.Renewal) (outcome string, slack float64) {
	if r.Lease > 0 {
		slack = min(max(r.Left.Seconds()/r.Lease.Seconds(), 0), 1)
	}
	switch {
	case errors.Is(r.Err, holdfast.ErrLost):
		return Lost, slack
	case r.Err != nil:
		return Again, slack
	case slack < 1.0/3:
		return Late, slack
	}
	return InTime, slack
}

// Operations whose outcome may stay unknown.
const (
	Acquire = "acquire"
	Release = "release"
)

// Operations are all of them.
var Operations = []string{Acquire, Release}

// What a wait of this client was found to be part of.
const (
	Self   = "self"   // this client has held the lock for as long
	Circle = "circle" // of waits, over any number of processes
)

// Shapes are both of them.
var Shapes = []string{Self, Circle}

// How a script fails.
const (
	Answered   = "answered"   // the server answered with an error
	Unanswered = "unanswered" // no answer came
)

// Failures are both of them.
var Failures = []string{Answered, Unanswered}

// Failure is how a script failed; empty: it did not.
func Failure(err error) string {
	var reply redis.Error
	switch {
	case err == nil || errors.Is(err, redis.Nil):
		return ""
	case errors.As(err, &reply):
		return Answered
	}
	return Unanswered
}
