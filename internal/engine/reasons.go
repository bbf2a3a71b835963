package engine

import (
	"errors"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/panics"
)

// outage is an ErrUnavailable with its reason.
func outage(why error) error { return errs.Both(errs.ErrUnavailable, why) }

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

// Raise returns the error of an operation, at its end. If what failed is a hook of go-redis that
// panicked, that goes on to the caller: all that the operation had by then has been given back, or
// will be.
func Raise(err error) error {
	if err == nil {
		return nil // without looking, which takes memory
	}
	if p := panics.In(err); p != nil {
		panic(p.Value)
	}
	return err
}
