package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Hold is one acquisition of a lock. It ends once, for one reason: it was unlocked, it was lost, or
// its client was closed.
//
// All methods are safe for concurrent use. A Hold that is dropped without Unlock goes on being
// renewed until its client is closed or its process ends.
type Hold engine.Hold

// Context returns the context of the hold. It carries the owner, so that Lock under it re-enters,
// and the fencing token. It ends with the hold, and its cause is then [ErrReleased], [ErrLost] or
// [ErrClosed]. It derives from the context of the Lock call and ends with that too. In that case
// the lock stays held until Unlock. Goroutines that run under it are the same owner.
//
// The context ends before Redis may grant the lock to anybody else, as long as clocks run at rates
// within 1 % of each other and the process is scheduled. After [Hold.Deadline], Err, Done and
// [context.Cause] never say that the context lives. Each call looks at the clock, so this holds
// even for the first call that a process makes after it stood still, or after the machine slept.
//
// Those who wait for Done, and contexts derived from this one, learn of the end as soon as the
// process is scheduled again, and within a second of a sleep. (Where the system does not count its
// sleep, as Linux does, all holds are renewed within that second, and end if Redis says so.)
//
// The context of a nil or zero Hold has ended.
func (h *Hold) Context() context.Context { return (*engine.Hold)(h).Context() }

// Unlock gives the hold back. The last of an owner's holds to be unlocked frees the lock and wakes
// the waiters. The hold's context ends first.
//
// The release is sent even if ctx is cancelled. Unlock takes at most [Options.RetryBudget] for all
// that it has to ask and, where Redis is silent, go-redis's ReadTimeout for the last answer.
//
// nil says that the lock was held until now. Redis has then released it, or another holder of this
// client has it. There are two exceptions:
//
//   - Hand-off. Unlock does not ask Redis when it hands the lock on and Redis was asked within the
//     last 10 ms. nil then says that no loss was known. If somebody forced the lock out in that
//     time, or wiped the server, the next holder learns of it from its next renewal, at most a
//     third of the lease later. With [NoHandoff], Unlock asks Redis each time.
//   - A lost answer. If the answer to the release was lost, the repeated release may find that the
//     lock is not held. It cannot tell whether the first release did that. nil then says that the
//     lock was held, as far as was known, when the release was first sent.
//
// Errors:
//   - [ErrReleased] for a second call, which is harmless;
//   - [ErrLost] if the hold was lost before; then nothing is touched;
//   - [ErrUnavailable] if Redis did not answer or could not serve, together with [ErrUncertain] if
//     Redis may have released the lock all the same. The release is then tried again in the
//     background, until the lease has ended the lock by itself;
//   - [ErrInvalid] for a nil or zero Hold.
func (h *Hold) Unlock(ctx context.Context) error {
	return h.fail("unlock", (*engine.Hold)(h).Unlock(ctx))
}

// Token is the fencing token. It is the same for re-entries, and greater for every new grant of the
// name. Hand it to the resource that the lock protects, and let the resource refuse a token smaller
// than the greatest it has seen. Package fence has guards that do that, and reads the token from
// [Hold.Context].
func (h *Hold) Token() uint64 { return (*engine.Hold)(h).Token() }

// Owner is the owner as Redis has it, "<client uuid>:h<number>". The number counts the owners of
// the client, and is no fencing token. When the lock is handed on within the process, later holders
// keep the owner of the first; their tokens tell their holds apart. A quorum lock has a number of its
// own for each grant, also under one owner's context.
func (h *Hold) Owner() string { return (*engine.Hold)(h).Owner() }

// Count is the depth of this re-entry: 1 for the outermost.
func (h *Hold) Count() int { return (*engine.Hold)(h).Count() }

// Deadline is until when the hold may be trusted without another answer from Redis, by the
// monotonic clock. After it the hold is lost. The watchdog moves the deadline on, and a sleep of
// the machine brings it nearer. The deadline of a hold that has ended is never in the future: it is
// the zero time, or the time at which the hold was lost.
func (h *Hold) Deadline() time.Time { return (*engine.Hold)(h).Deadline() }

// Extend makes the lease last at least lease from now, and later renewals use that length. It never
// shortens what is left.
//
// Errors: [ErrLost], [ErrReleased] or [ErrClosed] if the hold has ended; [ErrUnavailable] if Redis
// did not answer, together with [ErrUncertain] if the request may have reached Redis; [ErrInvalid]
// for a lease under 4 ms, a nil ctx, and a nil or zero Hold.
func (h *Hold) Extend(ctx context.Context, lease time.Duration) error {
	return h.fail("extend", (*engine.Hold)(h).Extend(ctx, lease))
}

// fail is the error of an operation, nil if there is none.
func (h *Hold) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	kind, name := (*engine.Hold)(h).Of()
	return &Error{Op: op, Kind: kind, Name: name, Err: err}
}
