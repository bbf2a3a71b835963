package holdfast

import (
	"github.com/holdfast-go/holdfast/internal/errs"
)

// These are the reasons why a lock is not held, or no longer held. Test for them with errors.Is.
//
// The methods of locks and holds wrap them in an [Error], which says which operation on which lock
// failed. [New], [Client.Close], and [Do] without a locker or a function have no lock to name.
// Their errors wrap a reason without an Error in between.
var (
	// ErrNotAcquired says that servers answered, and the caller did not get the lock: mostly
	// because somebody else has it. If the context ended or the time of [Wait] was over, errors.Is
	// is also true for that cause.
	//
	// A caller that stops waiting learns what its client knows of the lock, whichever call asked:
	//
	//	a server said during the call that the lock is held       ErrNotAcquired
	//	the holder is of the same client                          ErrNotAcquired
	//	the last lease that is known must still stand             ErrNotAcquired, unless a server is silent since
	//	no server is silent, and none said either                 ErrNotAcquired
	//	a query failed since, or a server is silent               ErrUnavailable
	//	the owner has the lock, and the re-entry has no answer    ErrUnavailable
	//	the context had ended before the call                     the context's cause, and neither of the two
	//
	// A server is silent if it has never answered this client. It is also silent if it has answered
	// nothing during the call, and was asked for half of that time. A call of less than 100 ms may
	// end before a healthy server can answer, so a second counts instead. If callers of this client
	// return late from their waits, their delay is added to that time, and a server that has not
	// answered yet must have been asked for so long too: a process that has no time to wake callers
	// has none to read answers either. A server that nobody had the time to ask is not silent, and
	// one that answers too late has answered. One that refuses all commands of this client, because
	// it is loading or because of the password, has not.
	//
	// As far as the server said, the text names the owner in Redis and how much of the lease is
	// left. If the owner is of the same client, the text has a hint for a caller that already holds
	// the lock and did not pass on the hold's context, except under a context of [WithOwner]. If no
	// majority of a quorum names one owner, the text has what each master said. If a master that is
	// silent decides who has the lock, that is a failed query.
	//
	// If the key is not a lock (it has no time to live, or fields that are not owners), the text
	// says what the key is. If the key clearly belongs to something else, Lock does not wait and
	// returns another error. That is so for a key that is not a hash, and for a hash without a time
	// to live and without a field that begins like an owner.
	ErrNotAcquired = errs.ErrNotAcquired
	// ErrUnavailable says that no server said who has the lock. No server was reached, or none
	// could serve, or a grant came when its lease could not be trusted any more. Unlock returns it
	// too, and so does [Do] when its function has run already. An outage is not
	// contention: see the table at [ErrNotAcquired]. A refusal by Redis itself, such as OOM or
	// MISCONF, is neither of the two. So ErrUnavailable comes together with ErrNotAcquired only if
	// a server refused the lock before it fell silent.
	//
	// errors.Is is also true for the last failure, and for the cause of a context that ended. That
	// cause is context.Canceled, or what the context was cancelled with, as by an errgroup. A
	// refused connection is such a failure for all callers of the client, even while go-redis is
	// still dialling again. A refused connection to a Sentinel is not: go-redis dials these itself,
	// and reports it only when it gives up, with its defaults after about 40 s.
	//
	// If the context had ended before the call, nothing is sent, and the error is neither this one
	// nor ErrNotAcquired. If that context belongs to another hold, the text names that hold's lock.
	ErrUnavailable = errs.ErrUnavailable
	// ErrLost says that a hold ended before it was unlocked: the lease ran out without an answer
	// from Redis, or Redis says that the owner does not hold the lock any more. It is also the
	// cause with which the hold's context ends.
	ErrLost = errs.ErrLost
	// ErrReleased says that a hold was unlocked before. It is also the cause with which the hold's
	// context ended.
	ErrReleased = errs.ErrReleased
	// ErrClosed says that the client was closed. It is also the cause with which the contexts of
	// its holds ended.
	ErrClosed = errs.ErrClosed
	// ErrUncertain says that the operation was sent and no answer came, so the server may have
	// executed it. The client undoes it in the background if it can. If no server can be reached,
	// the lease ends by itself. Without ErrUnavailable it comes from Unlock: the caller no longer
	// holds the lock, and may have lost it before the release.
	ErrUncertain = errs.ErrUncertain
	// ErrNotReplicated says that fewer replicas than [Replicas] asks for confirmed the grant in
	// time, or that a failover lost the grant first. The lock is not held. The text says how many
	// replicas confirmed.
	ErrNotReplicated = errs.ErrNotReplicated
	// ErrInvalid says that an argument was refused before anything was sent. The text names the
	// argument and the remedy.
	ErrInvalid = errs.ErrInvalid
)

// Error is the type of the errors that operations on locks return. It says which operation failed,
// on which lock, and why.
type Error struct {
	Op   string // "lock", "unlock", "extend", ...
	Kind string // "rlock", ...
	Name string // name of the lock
	Err  error  // the reason; see the Err variables of this package
}

// Error reads like `rlock: unlock "orders:42": lock lost`. It is one line of a few kilobytes at
// most. No name and no answer of a server can change a terminal through it. Name and Err have all
// of the text. A server without AUTH repeats the password in its answer, so log the Error and not
// its Err.
func (e *Error) Error() string { return errs.Text(e.Kind, e.Op, e.Name, e.Err) }

// Unwrap returns the reason, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }
