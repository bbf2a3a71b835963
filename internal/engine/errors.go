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
type both struct{ what, why error }

func (b both) Error() string   { return b.what.Error() + ": " + b.why.Error() }
func (b both) Unwrap() []error { return []error{b.what, b.why} }

// twice is two errors in one line of which neither is the reason of the other.
type twice struct{ one, other error }

func (t twice) Error() string   { return t.one.Error() + "; " + t.other.Error() }
func (t twice) Unwrap() []error { return []error{t.one, t.other} }

// together is what there is of two errors.
func together(one, other error) error {
	switch {
	case one == nil:
		return other
	case other == nil:
		return one
	}
	return twice{one, other}
}

// unasked is that a context had ended before anything was asked.
type unasked struct{ cause error }

func (u unasked) Error() string   { return "nothing was asked: " + u.cause.Error() }
func (u unasked) Unwrap() []error { return []error{ErrUnavailable, u.cause} }

func invalid(format string, args ...any) error {
	return both{ErrInvalid, fmt.Errorf(format, args...)}
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
