package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// The reasons that users know by the same names in package holdfast, where they are explained.
var (
	ErrNotAcquired   = errors.New("not acquired")
	ErrUnavailable   = errors.New("unavailable")
	ErrLost          = errors.New("lock lost")
	ErrReleased      = errors.New("lock released")
	ErrClosed        = errors.New("client closed")
	ErrUncertain     = errors.New("outcome unknown")
	ErrNotReplicated = errors.New("not replicated")
	ErrInvalid       = errors.New("invalid argument")
)

// both is two reasons in one line; errors.Join would put them on two.
func both(what, why error) error { return pair{what, why} }

type pair struct{ what, why error }

func (p pair) Error() string   { return p.what.Error() + ": " + p.why.Error() }
func (p pair) Unwrap() []error { return []error{p.what, p.why} }

// unasked is that a context had ended before anything was asked.
func unasked(cause error) error { return notAsked{cause} }

type notAsked struct{ cause error }

func (u notAsked) Error() string   { return "nothing was asked: " + u.cause.Error() }
func (u notAsked) Unwrap() []error { return []error{ErrUnavailable, u.cause} }

func invalid(format string, args ...any) error {
	return both(ErrInvalid, fmt.Errorf(format, args...))
}

func checkContext(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx is nil; use context.Background()")
	}
	return nil
}

// isReply tells an answer of the server from a failure to get one.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
