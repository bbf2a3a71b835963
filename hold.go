package holdfast

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/held"
)

// Hold is one acquisition of a lock. It ends once, for one reason: unlocked, lost, or its client closed.
//
// All methods are safe for concurrent use. A Hold that is dropped without Unlock goes on being renewed until its client
// is closed or its process ends.
type Hold struct {
	grant  *grant
	parent context.Context // of the Lock call; Context derives from it
	depth  int
	token  uint64

	mu     sync.Mutex // guards the rest
	ended  error      // why the hold ended, nil while it lasts
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Context carries the owner, so that Lock under it re-enters, and the token, and ends with the hold: its cause is then [ErrReleased],
// [ErrLost] or [ErrClosed]. It derives from the context of the Lock call and ends with that too; the lock stays held
// then, until Unlock.
//
// It ends before Redis may grant the lock to anybody else, as long as clocks run at rates within 1 % of each other and
// the process is scheduled. Goroutines started under it are the same owner.
func (h *Hold) Context() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx == nil { // made on demand: who only locks and unlocks does not pay for it
		ctx := context.WithValue(h.parent, ownerKey{}, h.grant.owner)
		h.ctx, h.cancel = context.WithCancelCause(held.With(ctx, h.grant.base.key.Name, h.token))
		if h.ended != nil {
			h.cancel(h.ended)
		}
	}
	return h.ctx
}

// end ends the hold for a reason, and returns the earlier reason if it had ended before.
func (h *Hold) end(reason error) (earlier error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return h.ended
	}
	h.ended = reason
	if h.cancel != nil {
		h.cancel(reason)
	}
	return nil
}

// Unlock gives the hold back; the outermost one frees the lock and wakes the waiters. The hold's context ends first.
//
// It is sent even if ctx is cancelled. It takes at most [Options.RetryBudget] and, where Redis is silent, one last attempt by
// go-redis's DialTimeout and ReadTimeout. nil says that the lock was held until now, and that Redis knows it to be released or
// another holder of this client has it.
// Errors: [ErrReleased] for a second call, which is harmless; [ErrLost] if the hold was lost before, nothing is touched
// then; [ErrUncertain] if Redis did not answer: the release is tried again in the background, until the lease has ended
// the lock by itself.
func (h *Hold) Unlock(ctx context.Context) error {
	if earlier := h.end(ErrReleased); earlier != nil {
		return h.grant.fail("unlock", earlier)
	}
	if err := h.grant.unlock(ctx, h); err != nil {
		return h.grant.fail("unlock", err)
	}
	return nil
}

// Token is the fencing token: the same for re-entries, greater for every new grant of the name. Hand it to the resource
// that the lock protects, and let that refuse what is smaller than the greatest it has seen. Package fence has guards that do,
// and reads the token from [Hold.Context].
func (h *Hold) Token() uint64 { return h.token }

// Owner is "<client uuid>:<token>" as it stands in Redis; where the lock was handed on within the process, a tenth of a second
// later at most. Where several masters grant the lock together, those it is handed to have the owner of the first.
func (h *Hold) Owner() string { return h.grant.id }

// Count is the depth of this re-entry: 1 for the outermost.
func (h *Hold) Count() int { return h.depth }

// Deadline is until when the hold may be trusted without another word from Redis, by the monotonic clock. The watchdog
// moves it on; after it the hold is lost.
func (h *Hold) Deadline() time.Time { return h.grant.deadline() }

// Extend makes the lease last at least lease from now, and lets later renewals use that. It never shortens what is left.
// Errors: [ErrLost], [ErrReleased] or [ErrClosed] if the hold has ended; [ErrInvalid] for a lease under 1 ms.
func (h *Hold) Extend(ctx context.Context, lease time.Duration) error {
	err := checkLease("lease", lease)
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

// reason is why the hold ended, nil while it lasts.
func (h *Hold) reason() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}
