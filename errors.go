package holdfast

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/errs"
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
	// text says what it is. If it is certainly none and stays (a hash without a time to live, none
	// of whose fields begins as an owner does, or no hash at all), that is not this error but one
	// of its own, and nobody waits: the name is the key of something else.
	ErrNotAcquired = errs.ErrNotAcquired
	// ErrUnavailable says that no server said who has the lock: none was reached, or none could
	// serve. An outage is not contention. So ErrUnavailable comes together with ErrNotAcquired only
	// where a server refused before it fell silent. errors.Is is true for the last failure too, and
	// for the cause of a context that ended.
	//
	// So whoever cancels a call before a server has said anything gets it too, together with
	// context.Canceled: test for that first where a cancelled call is to raise no alarm.
	//
	// If the context had ended before the call, nothing is asked, and the text speaks of no outage.
	// If it was the context of another hold, the text names that hold's lock.
	ErrUnavailable = errs.ErrUnavailable
	// ErrLost says that a hold ended before it was unlocked: the lease ran out without an answer
	// from Redis, or Redis says that the owner does not hold the lock any more. It is also the
	// cause with which the hold's context ends.
	ErrLost = errs.ErrLost
	// ErrReleased says that a hold was unlocked before. It is also the cause with which the hold's
	// context ended then.
	ErrReleased = errs.ErrReleased
	// ErrClosed says that the client was closed. It is also the cause with which the contexts of
	// its holds ended.
	ErrClosed = errs.ErrClosed
	// ErrUncertain says that the operation was sent and no answer came, so it may have happened on
	// the server. What can be undone is undone in the background. A lease that cannot be reached
	// ends by itself.
	ErrUncertain = errs.ErrUncertain
	// ErrNotReplicated says that fewer replicas than [WithReplicas] asks for had the grant in time,
	// or that a failover lost the grant before that. The lock is not held. The text says how many
	// replicas had it.
	ErrNotReplicated = errs.ErrNotReplicated
	// ErrInvalid says that an argument was refused before anything was sent. The text names the
	// argument and the remedy.
	ErrInvalid = errs.ErrInvalid
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
