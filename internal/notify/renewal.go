package notify

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/watchdog"
)

// Renewals is the function to call for each batch of renewals; nil if the observer does not want them.
// describe names the lock of an owner under watch, and the owner as the server knows it.
func (n *Notifier) Renewals(describe func(watchdog.Owner) (kind, name, owner string)) func([]watchdog.Renewal, []time.Duration) {
	if n.Renewed == nil {
		return nil
	}
	return func(batch []watchdog.Renewal, left []time.Duration) {
		for i, r := range batch {
			kind, name, owner := describe(r.Owner)
			e := event.Renewal{
				Kind: kind, Name: name, Owner: owner, Lease: r.Length, Left: left[i], Err: renewalError(r, left[i]),
			}
			n.enqueue("Renewed", roomForEvents, func() { n.Renewed(e) })
		}
	}
}

// renewalError is nil if the lease lasts.
func renewalError(r watchdog.Renewal, left time.Duration) error {
	switch {
	case left <= 0:
		return errs.Both(errs.ErrLost, watchdog.ErrDeadline)
	case r.Verdict == watchdog.Renewed:
		return nil
	case r.Verdict == watchdog.Gone:
		return errs.Both(errs.ErrLost, watchdog.ErrGone)
	case r.Err == nil:
		return errs.Both(errs.ErrUnavailable, errNoAnswer)
	case errs.IsReply(r.Err):
		return r.Err
	}
	return errs.Both(errs.ErrUnavailable, r.Err)
}

// errNoAnswer is an attempt to renew that got no answer in time.
var errNoAnswer = errors.New("no answer in time")
