package holdfast

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// The reasons for which a lock is not held, or no longer. Errors of this module wrap them in an
// [Error]; test with errors.Is.
var (
	// ErrNotAcquired says that somebody else has the lock: a server said so, or a holder of the
	// same client was in the way. If the context ended or the time of [Wait] was over, errors.Is is
	// true for that cause too.
	//
	// The text names the owner as Redis has it, and how much of the lease is left, as far as the
	// server said. If the key is no lock (it has no time to live, or fields that are no owner), the
	// text says what it is.
	ErrNotAcquired = errors.New("not acquired")
	// ErrUnavailable says that no server said who has the lock: none was reached, or none could
	// serve. An outage is not contention. So ErrUnavailable comes together with ErrNotAcquired only
	// where a server refused before it fell silent. errors.Is is true for the last failure too, and
	// for the cause of a context that ended.
	//
	// If the context had ended before the call, nothing is asked, and the text speaks of no outage.
	// If it was the context of another hold, the text names that hold's lock.
	ErrUnavailable = errors.New("unavailable")
	// ErrLost says that a hold ended before it was unlocked: the lease ran out without an answer
	// from Redis, or Redis says that the owner does not hold the lock any more. It is also the
	// cause with which the hold's context ends.
	ErrLost = errors.New("lock lost")
	// ErrReleased says that a hold was unlocked before. It is also the cause with which the hold's
	// context ended then.
	ErrReleased = errors.New("lock released")
	// ErrClosed says that the client was closed. It is also the cause with which the contexts of
	// its holds ended.
	ErrClosed = errors.New("client closed")
	// ErrUncertain says that the operation was sent and no answer came, so it may have happened on
	// the server. What can be undone is undone in the background. A lease that cannot be reached
	// ends by itself.
	ErrUncertain = errors.New("outcome unknown")
	// ErrNotReplicated says that fewer replicas than [WithReplicas] asks for had the grant in time,
	// or that a failover lost the grant before that. The lock is not held. The text says how many
	// replicas had it.
	ErrNotReplicated = errors.New("not replicated")
	// ErrInvalid says that an argument was refused before anything was sent. The text names the
	// argument and the remedy.
	ErrInvalid = errors.New("invalid argument")
)

// Error is what every operation on a lock returns: which operation failed, on which lock, and why.
type Error struct {
	Op   string // "lock", "unlock", "extend", ...
	Kind string // "rlock", ...
	Name string // name of the lock
	Err  error  // the reason; see the Err variables of this package
}

// Error reads like `rlock: unlock "orders:42": lock lost`.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s %q: %v", e.Kind, e.Op, e.Name, e.Err)
}

// Unwrap is for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

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
