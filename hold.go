package holdfast

import (
	"context"
	"sync"
	"time"
)

// Hold is one acquisition of a lock. It ends once, for one reason: it was unlocked, it was lost, or
// its client was closed.
//
// All methods are safe for concurrent use. A Hold that is dropped without Unlock goes on being
// renewed until its client is closed or its process ends.
type Hold struct {
	grant  *grant
	parent context.Context // of the Lock call; Context derives from it
	depth  int
	token  uint64
	// renewed says that the lease is renewed for as long as the hold lasts.
	renewed bool

	mu     sync.Mutex // guards the rest
	ended  error      // why the hold ended, nil while it lasts
	ctx    context.Context
	cancel context.CancelCauseFunc
}

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
func (h *Hold) Context() context.Context {
	if err := h.check(); err != nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(err)
		return ctx
	}
	h.mu.Lock()
	ctx := h.ctx
	h.mu.Unlock()
	if ctx != nil {
		return ctx
	}
	// Made on demand: who only locks and unlocks does not pay for it. And without the mutex, for it asks the context of the Lock
	// call, which may be a user's own, or another hold's, which may end this hold.
	fresh, cancel := h.newContext()
	h.mu.Lock()
	if h.ctx == nil {
		h.ctx, h.cancel = fresh, cancel
	}
	ctx, ended := h.ctx, h.ended
	h.mu.Unlock()
	switch {
	case ended != nil:
		cancel(ended)
	case ctx != context.Context(fresh):
		cancel(nil) // another goroutine was first
	}
	return ctx
}

// end ends the hold for a reason, and returns the earlier reason if it had ended before.
func (h *Hold) end(reason error) (earlier error) {
	h.mu.Lock()
	if h.ended != nil {
		defer h.mu.Unlock()
		return h.ended
	}
	h.ended = reason
	cancel := h.cancel
	h.mu.Unlock()
	if cancel != nil { // which asks the context of the Lock call, and so without the mutex
		cancel(reason)
	}
	return nil
}

// Unlock gives the hold back. The last of an owner's holds to be unlocked frees the lock and wakes the waiters. The hold's
// context ends first.
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
	if err := h.check(); err != nil {
		return &Error{Op: "unlock", Kind: "hold", Err: err}
	}
	if ctx == nil {
		ctx = context.Background() // it has to be sent in any case
	}
	if earlier := h.end(ErrReleased); earlier != nil {
		return h.grant.fail("unlock", earlier)
	}
	if err := h.grant.unlock(ctx, h); err != nil {
		return h.grant.fail("unlock", err)
	}
	return nil
}

// Token is the fencing token. It is the same for re-entries, and greater for every new grant of the
// name. Hand it to the resource that the lock protects, and let the resource refuse a token smaller
// than the greatest it has seen. Package fence has guards that do that, and reads the token from
// [Hold.Context].
func (h *Hold) Token() uint64 {
	if h == nil {
		return 0
	}
	return h.token
}

// Owner is the owner as Redis has it, "<client uuid>:h<number>". The number counts the owners of
// the client, and is no fencing token. When the lock is handed on within the process, later holders
// keep the owner of the first; their tokens tell their holds apart.
func (h *Hold) Owner() string {
	if h.check() != nil {
		return ""
	}
	return h.grant.id
}

// Count is the depth of this re-entry: 1 for the outermost.
func (h *Hold) Count() int {
	if h == nil {
		return 0
	}
	return h.depth
}

// Deadline is until when the hold may be trusted without another answer from Redis, by the
// monotonic clock. After it the hold is lost. The watchdog moves the deadline on, and a sleep of
// the machine brings it nearer. The deadline of a hold that has ended is never in the future: it is
// the zero time, or the time at which the hold was lost.
func (h *Hold) Deadline() time.Time {
	if h.check() != nil {
		return time.Time{}
	}
	deadline := h.grant.deadline()
	if h.reason() != nil && deadline.After(time.Now()) {
		return time.Time{}
	}
	return deadline
}

// Extend makes the lease last at least lease from now, and later renewals use that length. It never
// shortens what is left.
//
// Errors: [ErrLost], [ErrReleased] or [ErrClosed] if the hold has ended; [ErrUnavailable] if Redis
// did not answer, together with [ErrUncertain] if the request may have reached Redis; [ErrInvalid]
// for a lease under 4 ms, a nil ctx, and a nil or zero Hold.
func (h *Hold) Extend(ctx context.Context, lease time.Duration) error {
	if err := h.check(); err != nil {
		return &Error{Op: "extend", Kind: "hold", Err: err}
	}
	err := checkLease("lease", lease)
	if err == nil {
		err = checkContext(ctx)
	}
	if err == nil {
		err = h.reason()
	}
	if err == nil {
		err = h.grant.extend(ctx, lease)
	}
	if err != nil {
		return h.grant.fail("extend", err)
	}
	return nil
}

// check refuses what Lock did not return without an error: the methods of a nil or zero Hold fail, and do not panic.
func (h *Hold) check() error {
	switch {
	case h == nil:
		return invalid("hold is nil; use the one that Lock returned, and that only if its error is nil")
	case h.grant == nil:
		return invalid("hold is a zero Hold; use the one that Lock returned")
	}
	return nil
}

// reason is why the hold ended, nil while it lasts.
func (h *Hold) reason() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}
