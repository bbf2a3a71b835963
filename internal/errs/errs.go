// Package errs has the reasons for which an operation on a lock fails, and puts them together.
package errs

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// The reasons that users know by the same names in package holdfast, where they are explained.
var (
	ErrNotAcquired   = errors.New("not acquired")
	ErrUnavailable   = errors.New("unavailable")
	ErrLost          = errors.New("lock lost")
	ErrReleased      = errors.New("already unlocked")
	ErrClosed        = errors.New("client closed")
	ErrUncertain     = errors.New("outcome unknown")
	ErrNotReplicated = errors.New("not replicated")
	ErrInvalid       = errors.New("invalid argument")
)

// Both is two reasons in one line; errors.Join would put them on two.
func Both(what, why error) error { return pair{what, why} }

// Join is two errors in one line, either of which may be nil.
func Join(one, other error) error {
	switch {
	case one == nil:
		return other
	case other == nil:
		return one
	}
	return fmt.Errorf("%w; %w", one, other)
}

// Reworded is an error with another text. errors.Is and errors.As find in it what they found before.
func Reworded(text string, err error) error { return reworded{err, text} }

type reworded struct {
	error
	text string
}

func (r reworded) Error() string { return printable.Line(r.text) }
func (r reworded) Unwrap() error { return r.error }

// Outage is an [ErrUnavailable] with its reason.
func Outage(why error) error { return Both(ErrUnavailable, why) }

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
	return Both(cause, failure)
}

type pair struct{ what, why error }

func (p pair) Error() string   { return printable.Line(p.what.Error() + ": " + p.why.Error()) }
func (p pair) Unwrap() []error { return []error{p.what, p.why} }

// Text is what failed, on which lock, and why. All that others wrote in it is printable: names are quoted, and the
// reason is one line. So it does not matter where in a chain of errors a server's text stands.
func Text(kind, op, name string, why error) string {
	return fmt.Sprintf("%s: %s %s: %s", kind, op, printable.Quote(name), printable.Line(why.Error()))
}

// Unasked is the error of a call whose context had ended before a command was sent: the context's cause, and
// nothing about a lock or a server.
func Unasked(cause error) error { return notAsked{cause} }

type notAsked struct{ cause error }

func (u notAsked) Error() string { return printable.Line("not sent: " + u.cause.Error()) }
func (u notAsked) Unwrap() error { return u.cause }

// Invalid is an [ErrInvalid] that says which argument, and the remedy.
func Invalid(format string, args ...any) error {
	return Both(ErrInvalid, fmt.Errorf(format, args...))
}

// CheckContext refuses a nil one.
func CheckContext(ctx context.Context) error {
	if ctx == nil {
		return Invalid("ctx is nil; use context.Background()")
	}
	return nil
}

// IsReply tells an answer of the server from a failure to get one.
func IsReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
