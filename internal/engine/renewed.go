package engine

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/watchdog"
)

// renewable is what is renewed: a tenure.
type renewable interface {
	// shown is its lock, and its owner as the server knows it.
	shown() (kind, name, owner string)
}

// renewed tells an observer of renewals; nil if nobody hears of them.
func (o *observed) renewed() func(batch []watchdog.Renewal, left []time.Duration) {
	if o.Renewed == nil {
		return nil
	}
	return func(batch []watchdog.Renewal, left []time.Duration) {
		for i, r := range batch {
			kind, name, owner := r.Owner.(renewable).shown()
			e := RenewalEvent{
				Kind: kind, Name: name, Owner: owner, Lease: r.Length, Left: left[i], Err: outcomeOf(r, left[i]),
			}
			o.later("Renewed", roomForEvents, func() { o.Renewed(e) })
		}
	}
}

// outcomeOf is what a renewal has come to: nil if the lease lasts.
func outcomeOf(r watchdog.Renewal, left time.Duration) error {
	switch {
	case left <= 0:
		return errs.Both(errs.ErrLost, watchdog.ErrDeadline)
	case r.Verdict == watchdog.Renewed:
		return nil
	case r.Verdict == watchdog.Gone:
		return errs.Both(errs.ErrLost, watchdog.ErrGone)
	case r.Err == nil:
		return outage(errNoAnswer)
	case errs.IsReply(r.Err):
		return r.Err
	}
	return outage(r.Err)
}

// errNoAnswer is an attempt to renew that nobody has answered in time.
var errNoAnswer = errors.New("no answer in time")
