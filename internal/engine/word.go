package engine

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
)

// notAcquired is an ErrNotAcquired with what is known of the holder. The text is made only when
// Error is called, because most callers of TryLock never read it.
type notAcquired struct {
	Word
	age     time.Duration // of the word
	cause   error         // why nobody waits any more; nil if it was asked once
	failure error         // of the server since then, or nil
	hint    string        // for a caller that may hold it; empty: the owner is of another client
}

// Error reads like `not acquired: waited as long as Wait allows; held by <owner>, whose lease has
// 28s left`, with the hint behind it for an owner of the same client.
func (r *notAcquired) Error() string {
	text, sep := errs.ErrNotAcquired.Error(), ": "
	add := func(format string, args ...any) {
		text += sep + fmt.Sprintf(format, args...)
		sep = "; "
	}
	if r.cause != nil {
		add("%v", r.cause)
	}
	if !r.At.IsZero() {
		if who := r.Text(r.age); who != "" {
			add("%s", who)
		}
	}
	if r.failure != nil {
		add("%v since: %v", errs.ErrUnavailable, r.failure)
	}
	if r.hint != "" {
		add("%s", r.hint)
	}
	return text
}

// ownHint is for the caller who waited for an owner of its own client. That owner may be the caller
// itself: Lock under a plain context is a new owner each time. Where nothing is re-entered, the
// context of the hold would not help.
func (b *Lock) ownHint() string {
	if b.traits.NoReentry {
		return "the holder is of this client: if this code path is that holder, it waits for itself, because nothing is re-entered here"
	}
	return "the holder is of this client: if this code path already holds the lock, lock under hold.Context()"
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
