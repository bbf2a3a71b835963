package holdfast

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// The reasons for which a lock is not, or no longer, held. Errors of this module wrap them in an [Error]; test with
// errors.Is.
var (
	// ErrNotAcquired says that the lock was not granted within the time or the context of the call. If the context
	// ended, errors.Is is true for its cause too.
	ErrNotAcquired = errors.New("not acquired")
	// ErrLost says that a hold ended before it was unlocked: the lease ran out without word from Redis, or Redis says
	// that the owner does not hold the lock any more. It is also the cause with which the hold's context ends.
	ErrLost = errors.New("lock lost")
	// ErrReleased says that a hold was unlocked before. It is also the cause with which its context ended then.
	ErrReleased = errors.New("lock released")
	// ErrClosed says that the client was closed. It is also the cause with which the contexts of its holds ended.
	ErrClosed = errors.New("client closed")
	// ErrUncertain says that the operation may have happened on the server: it was sent, and no answer came. What can
	// be undone is undone in the background; a lease that cannot be reached ends by itself.
	ErrUncertain = errors.New("outcome unknown")
	// ErrNotReplicated says that fewer replicas than [WithReplicas] asks for had the grant in time, or that a failover lost it
	// before that. The lock is not held. The text says how many had it.
	ErrNotReplicated = errors.New("not replicated")
	// ErrInvalid says that an argument was refused before anything was sent. The text names it and the remedy.
	ErrInvalid = errors.New("invalid argument")
)

// Error is what every operation on a lock returns: which operation, on what, and why not.
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

func invalid(format string, args ...any) error {
	return both{ErrInvalid, fmt.Errorf(format, args...)}
}

// isReply tells an answer of the server from a failure to get one.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
