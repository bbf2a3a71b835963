package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Hold is one acquisition of a lock. It ends once, for one reason: it was unlocked, it was lost, or
// its client was closed.
//
// All methods are safe for concurrent use. If you drop a Hold without Unlock, its client renews it
// until the client is closed or its process ends.
type Hold engine.Hold

// Context returns the context of the hold. It carries the owner, so that Lock under it re-enters,
// and the fencing token. It ends with the hold, and its cause is then [ErrReleased], [ErrLost] or
// [ErrClosed]. It derives from the context of the Lock call. If that context ends first, the hold's
// context ends too, and the lock stays held until Unlock. Goroutines that run under the hold's
// context are the same owner.
//
// The context ends before Redis may grant the lock to anybody else, as long as clocks run at rates
// within 1 % of each other and the process is scheduled. After [Hold.Deadline], Err, Done and
// [context.Cause] never say that the context lives. Each call looks at the clock, so this holds
// even for the first call that a process makes after it stood still, or after the machine slept.
//
// Goroutines that wait for Done, and contexts derived from this one, see the end as soon as the
// process is scheduled again. After a sleep of the machine they see it within a second. (Linux
// counts the time that it slept. On systems that do not, the client renews all holds within that
// second, and a hold ends if Redis says that it is lost.)
//
// The context of a nil or zero Hold has ended.
func (h *Hold) Context() context.Context { return (*engine.Hold)(h).Context() }

// Unlock gives the hold back. The last of an owner's holds to be unlocked frees the lock and wakes
// the waiters. The hold's context ends first.
//
// The client sends the release even if ctx is cancelled. Unlock takes at most [Options.RetryBudget]
// for everything it asks, or a little longer: see there. What is left then goes on in the
// background.
//
// A nil error means that the lock was held until now. Redis has then released it, or another holder
// of this client has it. There are two exceptions:
//
//   - Hand-off. Unlock does not ask Redis when it hands the lock off and the client has asked Redis
//     within the last 10 ms. A nil error then means that the client knew of no loss. If somebody
//     forced the lock free in that time, or wiped the server, the next holder's next renewal finds
//     the loss, at most a third of the lease later. With [NoHandoff], Unlock asks Redis each time.
//     With Keep of package rlock, Unlock may keep the lock for the client's next holder without asking, for as
//     long as the option says.
//   - A lost answer. If the answer to the release was lost, the repeated release may find that the
//     lock is not held. It cannot tell whether the first release did that. Unlock then asks who has
//     had the lock since. If nobody has, the error is nil. If another owner has, Unlock returns
//     [ErrUncertain]: the hold may have been lost before. Redisson's owners count only while they
//     hold the lock.
//
// Errors:
//   - [ErrReleased] for a second call, which is harmless;
//   - [ErrLost] if the hold was lost before; nothing is sent then;
//   - [ErrUnavailable] if Redis did not answer or could not serve, together with [ErrUncertain] if
//     Redis may have released the lock all the same. The release is then repeated in the background
//     until the lease has ended;
//   - [ErrUncertain] alone after a lost answer, see above;
//   - [ErrClosed] if the client was closed before, which has released the lock;
//   - [ErrInvalid] for a nil or zero Hold.
func (h *Hold) Unlock(ctx context.Context) error {
	return h.fail("unlock", (*engine.Hold)(h).Unlock(ctx))
}

// UnlockNow is Unlock, except that it also gives up what is left of [HoldAtLeast]: others can have the lock
// at once. Use it where the work has failed and is to be tried again soon. [ReleaseOnError] has [Do] call
// it. While the owner has the lock for an outer hold too, UnlockNow is Unlock.
func (h *Hold) UnlockNow(ctx context.Context) error {
	return h.fail("unlock", (*engine.Hold)(h).GiveBack(ctx))
}

// Wanted returns a channel that is closed when somebody else wants the lock. A holder that can
// finish early can use it. All holds of an owner share the channel.
//
// Goroutines of the same client count when they begin to wait. Other clients count only under
// Keep of package rlock, and only if they use this library. They count when they are refused, whether they wait or
// not. A hold of a kind whose waiters queue at the server never learns that the lock is wanted. The
// channel of a nil Hold is nil, and so is that of a multilock's hold. Wanted is a hint, which can
// be lost: no promise depends on it.
func (h *Hold) Wanted() <-chan struct{} { return (*engine.Hold)(h).Wanted() }

// Token is the fencing token. It is the same for re-entries, and greater for every new grant of the
// name. Pass it to the resource that the lock protects, and let the resource refuse a token smaller
// than the greatest it has seen. Package fence has guards that do that, and reads the token from
// [Hold.Context].
//
// The token of a multilock's hold is the greatest of its members' tokens. It orders only holds of
// the same set of locks. A resource that one member guards has to check that member's token, by
// fence.TokenOf.
func (h *Hold) Token() uint64 { return (*engine.Hold)(h).Token() }

// Owner is the owner's name in Redis, "<client uuid>:h<number>", with a k or an s for the h under
// Keep of package rlock. The number counts the owners of the client and is not a fencing token. When the client
// hands the lock off, later holders keep the name of the first owner; their tokens tell their holds
// apart. A quorum lock gives each grant a number of its own, even under one owner's context.
func (h *Hold) Owner() string { return (*engine.Hold)(h).Owner() }

// Count is the depth of this re-entry: 1 for the outermost. For a semaphore it is the number of
// permits, and for a multilock the least of its members' counts.
func (h *Hold) Count() int { return (*engine.Hold)(h).Count() }

// Deadline is the time until which the hold may be trusted without another answer from Redis, by
// the monotonic clock. After that time the hold is lost. Each renewal moves the deadline forward,
// and a sleep of the machine brings it nearer. The deadline of a hold that has ended is never in
// the future: it is the zero time, or the time at which the hold was lost.
func (h *Hold) Deadline() time.Time { return (*engine.Hold)(h).Deadline() }

// Extend makes the lease last at least lease from now, and later renewals use that length. It never
// shortens what is left.
//
// Errors:
//   - [ErrLost], [ErrReleased] or [ErrClosed] if the hold had ended when Extend was called, or ended
//     before the answer of Redis came, or if Redis answers that the lock is not held any more;
//   - [ErrUnavailable] if Redis did not answer, together with [ErrUncertain] if the request may have
//     reached Redis. The hold may have been lost meanwhile; the cause of its context says so;
//   - [ErrInvalid] for a lease under 4 ms, a nil ctx, and a nil or zero Hold.
func (h *Hold) Extend(ctx context.Context, lease time.Duration) error {
	return h.fail("extend", (*engine.Hold)(h).Extend(ctx, lease))
}

// fail wraps the error of an operation in an [Error]. It returns nil for nil.
func (h *Hold) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	kind, name := (*engine.Hold)(h).Of()
	return &Error{Op: op, Kind: kind, Name: name, Err: err}
}
