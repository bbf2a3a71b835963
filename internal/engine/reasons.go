package engine

import (
	"errors"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/panics"
)

// outage is an ErrUnavailable with its reason.
func outage(why error) error { return errs.Both(errs.ErrUnavailable, why) }

// WithCause adds the last failure to the cause that ended a wait, if either is there. An error of Redis must not hide
// behind a timeout.
func WithCause(cause, failure error) error {
	switch {
	case failure == nil:
		return cause
	case cause == nil:
		return failure
	case errors.Is(failure, cause):
		return failure
	}
	return errs.Both(cause, failure)
}

// Raise returns the error of an operation, at the operation's end. If a hook of go-redis panicked,
// Raise lets the panic go on to the caller. By then everything that the operation had got is given
// back, or will be.
func Raise(err error) error {
	if err == nil {
		return nil // without looking, which takes memory
	}
	if p := panics.In(err); p != nil {
		panic(p.Value)
	}
	return err
}
