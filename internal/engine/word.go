package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// Word is what a server said last to a grant that is not live: that somebody has the lock. Together
// with the last failure, in the grant's failed, it decides what the end of a wait is called: who
// was refused was kept out by somebody, who was not met an outage.
type Word struct {
	At time.Time // when it was said; zero: never
	remote.Blocker
}

// notAcquired is an ErrNotAcquired that says what it knows. The text is made when it is asked for:
// most callers of TryLock never do.
type notAcquired struct {
	Word
	age     time.Duration // of the word
	cause   error         // why nobody waits any more; nil if it was asked once
	failure error         // of the server since then, or nil
}

// Error reads like `not acquired: waited as long as Wait allows; held by <owner>, whose lease has
// 28s left`.
func (r *notAcquired) Error() string {
	text, sep := errs.ErrNotAcquired.Error(), ": "
	add := func(format string, args ...any) {
		text += sep + fmt.Sprintf(format, args...)
		sep = "; "
	}
	if r.cause != nil {
		add("%v", r.cause)
	}
	if who := r.Text(r.age); who != "" {
		add("%s", who)
	}
	if r.failure != nil {
		add("%v since: %v", errs.ErrUnavailable, r.failure)
	}
	return text
}

// Unwrap is for errors.Is and errors.As.
func (r *notAcquired) Unwrap() []error {
	all := []error{errs.ErrNotAcquired}
	if r.cause != nil {
		all = append(all, r.cause)
	}
	if r.failure != nil {
		all = append(all, errs.ErrUnavailable, r.failure)
	}
	return all
}

// denied notes what a server said is in the way.
func (g *grant) denied(by remote.Blocker) {
	g.failed.Store(nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.said = Word{time.Now(), by}
}

// hear takes over what the one knows that was ahead in the local queue: it asked for both. If that
// one had the lock, or was refused, so was this one. leaving says that this one will not ask for
// itself: then the failures count too.
func (g *grant) hear(ahead any, leaving bool) {
	front, _ := ahead.(*grant)
	if front == nil || front == g {
		return
	}
	front.mu.Lock()
	said := front.said
	if front.live {
		said = Word{time.Now(), remote.Blocker{Left: -1, Owner: front.id + " of this client"}}
	}
	live := front.live
	front.mu.Unlock()
	if leaving && !live {
		g.failed.Store(front.failed.Load())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.said = said
}

// left is the error of a caller that stopped waiting because of cause, nil if it asked once and has
// the answer.
func (g *grant) left(cause error) error {
	if errors.Is(cause, errs.ErrClosed) {
		return errs.ErrClosed
	}
	g.mu.Lock()
	said := g.said
	g.mu.Unlock()
	var failure error
	if failed := g.failed.Load(); failed != nil {
		failure = *failed
	}
	switch {
	case !said.At.IsZero():
		return &notAcquired{said, time.Since(said.At), cause, failure}
	case cause == nil:
		return errs.ErrNotAcquired // by somebody of this process
	case failure == nil && g.counted:
		failure = remote.ErrSilent // on the way
	}
	why := WithCause(cause, failure)
	if control.Outage.Off() {
		return errs.Both(errs.ErrNotAcquired, why)
	}
	return outage(why)
}

// acquireFailed is the error of an acquisition that failed or was left. Nothing stays uncertain for
// its caller: what may have been granted is undone.
func (g *grant) acquireFailed(wait context.Context, o remote.Outcome) error {
	if cause := context.Cause(wait); cause != nil && remote.IsOutage(o.Err) {
		return g.left(cause)
	}
	return g.base.Uncertain(o)
}

// outage is an ErrUnavailable with its reason.
func outage(why error) error { return errs.Both(errs.ErrUnavailable, why) }

// Under adds to an error of what was called under the context of a hold that has ended, and failed
// for that, which hold that was: the error names the lock that was asked for, and that one may be
// free.
func Under(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil {
		return err
	}
	for h := holdOf(ctx); h != nil; h = holdOf(h.parent) {
		ended := h.reason()
		for _, why := range []error{errs.ErrLost, errs.ErrReleased, errs.ErrClosed} {
			if errors.Is(ended, why) && errors.Is(cause, why) && errors.Is(err, why) {
				key := h.grant.base.Key
				return fmt.Errorf("the hold of %s %q, under whose context it was called, has ended: %w", key.Kind,
					key.Name, err)
			}
		}
	}
	return err
}

// WithCause adds to the end of a wait what had kept it from succeeding: an error of Redis must not
// hide behind a timeout.
func WithCause(cause, failure error) error {
	switch {
	case failure == nil:
		return cause
	case errors.Is(failure, cause):
		return failure
	}
	return errs.Both(cause, failure)
}
