package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// Hold is what users know as holdfast.Hold, one acquisition. It has no exported fields: users of
// that type would see them.
type Hold struct {
	on      holdOwner
	parent  context.Context // of the Lock call; Context derives from it
	depth   int32
	renewed bool // the lease is renewed for as long as the hold lasts
	token   uint64

	mu     sync.Mutex // guards the rest
	ended  error      // why the hold ended, nil while it lasts
	ctx    *holdContext
	cancel context.CancelCauseFunc
	notice *notify.EndNotice // nil: nobody is told of the end. Set once, when the hold is made
}

// holdOwner has holds: a grant, or several joined holds as one.
type holdOwner interface {
	// ownerID is the owner's name at the server. of is the lock.
	ownerID() string
	of() queue.Key
	// deadline is the time until which the lock can be trusted to be held.
	deadline() time.Time
	// unlock ends the hold. The last hold's end releases the lock.
	unlock(ctx context.Context, budget remote.SharedBudget, h *Hold) error
	// extend makes the lease last at least so long from now.
	extend(ctx context.Context, lease time.Duration) error
	// newContext makes a context for the hold, and the function that ends it.
	newContext(h *Hold) (*holdContext, context.CancelCauseFunc)
	// tell adds the owner and the tokens of the hold to a context.
	tell(ctx context.Context, h *Hold) context.Context
	// wanted is closed when somebody else wants the lock; nil: that is not known.
	wanted() <-chan struct{}
	// combiningClient is the client that combines the commands of its holds; nil: each is sent alone.
	combiningClient() *Client
	// forgo is for what is given back before anything has run under it, or has failed: the lock need not stay taken,
	// unless the owner has it for another hold than h too.
	forgo(h *Hold)
	// releasesOnError reports whether it is to be called where the work failed.
	releasesOnError() bool
	// look ends the hold if the deadline has passed.
	look(h *Hold)
}

// newHold makes an empty hold, with room for the notice of its end if the observer is told of ends.
func newHold(o *notify.Notifier) *Hold {
	if !o.WantsEnds() {
		return &Hold{}
	}
	both := &struct {
		Hold
		end notify.EndNotice
	}{}
	both.notice = &both.end
	return &both.Hold
}

// Context returns the context of the hold, which is made when it is first asked for.
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
	// The context is made on demand, so that callers who only lock and unlock do not pay for it. It
	// is made without the mutex because that calls the parent context, which may be a user's own
	// type, or that of a hold whose end ends this one.
	fresh, cancel := h.on.newContext(h)
	h.mu.Lock()
	if h.ctx == nil {
		h.ctx, h.cancel = fresh, cancel
	}
	ctx = h.ctx
	ended := h.ended
	h.mu.Unlock()
	switch {
	case ended != nil:
		cancel(ended)
	case ctx != fresh:
		cancel(nil) // another goroutine was first
	}
	return ctx
}

// end ends the hold for a reason, and returns the earlier reason if it had ended before.
func (h *Hold) end(reason error) (earlier error) {
	told, earlier := h.endUntold(reason)
	if told {
		h.notice.TellLater(h.ending(sinceStart(), reason, nil))
	}
	return earlier
}

// endUntold is end for a caller that tells of it, if somebody hears.
func (h *Hold) endUntold(reason error) (told bool, earlier error) {
	h.mu.Lock()
	earlier, cancel := h.ended, h.cancel
	if earlier == nil {
		h.ended = reason
		told = h.notice.Armed()
	}
	h.mu.Unlock()
	if cancel != nil { // without the mutex, because it calls the parent context
		// Also if the hold had ended: the goroutine that ended it may not have cancelled the context
		// yet, and our caller has to see it ended.
		cancel(cmp.Or(earlier, reason))
	}
	return told, earlier
}

// since is when the hold began, by sinceStart.
func (h *Hold) since() time.Duration {
	if h.notice != nil && h.notice.Since != 0 {
		return h.notice.Since
	}
	return sinceStart()
}

// watch has the end of the hold told from now on: Granted has returned. If the hold has ended by now,
// its end is told at once. Of a hold without a notice nothing is told.
func (h *Hold) watch(s notify.EndNotice) {
	if h.notice == nil {
		return
	}
	h.mu.Lock()
	*h.notice = s
	ended := h.ended
	h.mu.Unlock()
	if ended != nil {
		h.notice.TellLater(h.ending(sinceStart(), ended, nil))
	}
}

// tellEnd tells of an end by Unlock, and what came of that. at is when it ended, by sinceStart; 0: now.
func (h *Hold) tellEnd(at time.Duration, err error) {
	if at == 0 {
		at = sinceStart()
	}
	reason := errs.ErrReleased
	if err != nil {
		reason = reasonOf(err)
	}
	e := h.ending(at, reason, err)
	h.notice.Tell(&e)
}

// ending is what is told of the end at a moment.
func (h *Hold) ending(at time.Duration, reason, err error) event.End {
	key := h.on.of()
	return event.End{
		Kind: key.Kind, Name: key.Name, Owner: h.on.ownerID(), Token: h.token, Count: int(h.depth),
		Reason: reason, Held: at - h.notice.Since, Err: err,
	}
}

// Unlock gives the hold back. The hold's context ends first.
func (h *Hold) Unlock(ctx context.Context) error { return h.unlock(ctx, remote.SharedBudget{}) }

func (h *Hold) unlock(ctx context.Context, budget remote.SharedBudget) error {
	if err := h.check(); err != nil {
		return err
	}
	if ctx == nil {
		ctx = context.Background() // it has to be sent in any case
	}
	return panics.Repanic(h.on.unlock(ctx, budget, h))
}

// ReleasesOnError reports whether it was asked for with [ReleaseOnError].
func (h *Hold) ReleasesOnError() bool { return h.check() == nil && h.on.releasesOnError() }

// GiveBack is Unlock for a hold that nobody has seen, or whose work has failed: what was asked for with
// [HoldAtLeast] is released too.
func (h *Hold) GiveBack(ctx context.Context) error { return h.giveBack(ctx, remote.SharedBudget{}) }

func (h *Hold) giveBack(ctx context.Context, budget remote.SharedBudget) error {
	if h.check() == nil {
		h.on.forgo(h)
	}
	return h.unlock(ctx, budget)
}

// GiveBackWithin is GiveBack with another retry budget. What is left then goes on in the background.
func (h *Hold) GiveBackWithin(ctx context.Context, d time.Duration) error {
	return h.giveBack(ctx, remote.NewSharedBudget(d))
}

// GiveBackBy is GiveBack for a caller who leaves at a time, zero if that has no bound, or whose context has ended: it
// returns about then. What is left goes on in the background.
func (h *Hold) GiveBackBy(ctx context.Context, end time.Time) error {
	limit := time.Duration(math.MaxInt64)
	if !end.IsZero() {
		limit = max(time.Until(end), leastGiveBack)
	}
	if ctx.Err() != nil {
		limit = min(limit, leftGiveBack)
	}
	if limit == math.MaxInt64 {
		return h.GiveBack(ctx)
	}
	return h.GiveBackWithin(ctx, limit)
}

const (
	// leastGiveBack is how long an answer is waited for where the caller's time is over: servers that answer do so sooner.
	leastGiveBack = 50 * time.Millisecond
	// leftGiveBack is the same where the caller's context was cancelled, of which nobody has said when it would be.
	leftGiveBack = 250 * time.Millisecond
)

// Ended looks at the clock, and is why the hold has ended; nil while it lasts.
func (h *Hold) Ended() error {
	if h.reason() == nil {
		h.on.look(h)
	}
	return h.reason()
}

// Token is the fencing token, 0 of a nil Hold; of a joined one see [Join].
func (h *Hold) Token() uint64 {
	if h == nil {
		return 0
	}
	return h.token
}

// Owner is the owner as Redis has it; empty of a nil or zero Hold.
func (h *Hold) Owner() string {
	if h.check() != nil {
		return ""
	}
	return h.on.ownerID()
}

// Count is the depth of this re-entry, 1 for the outermost, or how many permits it has.
func (h *Hold) Count() int {
	if h == nil {
		return 0
	}
	return int(h.depth)
}

// Deadline is until when the hold may be trusted without another answer from Redis. It is never in
// the future once the hold has ended.
func (h *Hold) Deadline() time.Time {
	if h.check() != nil {
		return time.Time{}
	}
	deadline := h.on.deadline()
	if h.reason() != nil && deadline.After(time.Now()) {
		return time.Time{}
	}
	return deadline
}

// Extend makes the lease last at least lease from now, and later renewals use that length.
func (h *Hold) Extend(ctx context.Context, lease time.Duration) error {
	if err := h.check(); err != nil {
		return err
	}
	err := checkLease("lease", lease)
	if err == nil {
		err = errs.CheckContext(ctx)
	}
	if err == nil {
		err = h.reason()
	}
	if err == nil && ctx.Err() != nil {
		err = Under(ctx, errs.Unasked(context.Cause(ctx)))
	}
	if err == nil {
		err = h.on.extend(ctx, lease)
	}
	return panics.Repanic(err)
}

// Wanted is closed when somebody else wants the lock, as far as that is heard of. It is nil of what
// nobody can say that of.
func (h *Hold) Wanted() <-chan struct{} {
	if h.check() != nil {
		return nil
	}
	return h.on.wanted()
}

// Of says which lock it is a hold of. A nil or zero Hold is of none.
func (h *Hold) Of() (kind, name string) {
	if h.check() != nil {
		return "hold", ""
	}
	key := h.on.of()
	return key.Kind, key.Name
}

// check refuses what Lock did not return without an error: the methods of a nil or zero Hold fail,
// and do not panic.
func (h *Hold) check() error {
	switch {
	case h == nil:
		return errs.Invalid("hold is nil; use the one that Lock returned, and that only if its error is nil")
	case h.on == nil:
		return errs.Invalid("hold is a zero Hold; use the one that Lock returned")
	}
	return nil
}

// reason is why the hold ended, nil while it lasts.
func (h *Hold) reason() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}

// reasonOf is why a hold ended whose Unlock failed: the lock may have been lost before, or the client
// closed, and then Unlock says so.
func reasonOf(err error) error {
	if errors.Is(err, errs.ErrLost) || errors.Is(err, errs.ErrClosed) {
		return err
	}
	return errs.ErrReleased
}

// holdContext is the context of a hold. It is ended by whoever ends the hold; where that is the
// watchdog, a moment may pass before it runs, after the process stood still. So whoever asks it
// looks at the clock first, and ends the hold if its time is over.
//
// All else it leaves to the context in it, which package context made: Done is that one's, and so
// is what Value says of the way up. So derived contexts hang from it as they would without this
// type, without a goroutine each, and context.Cause finds the cause.
type holdContext struct {
	context.Context
	hold *Hold
}

// holdKey is under which a context says which hold's it is.
type holdKey struct{}

func holdOf(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}

// Done looks at the clock and then is that of context.Context.
func (c *holdContext) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

// Err looks at the clock and then is that of context.Context.
func (c *holdContext) Err() error {
	c.look()
	return c.Context.Err()
}

// Value also looks at the clock when package context asks for the context that can be cancelled:
// for context.Cause, and when a context is derived. Its key is a pointer to an int; who else uses
// such a key loses nothing.
func (c *holdContext) Value(key any) any {
	switch key.(type) {
	case *int:
		c.look()
	case holdKey:
		return c.hold
	}
	return c.Context.Value(key)
}

// look ends the hold if its deadline has passed. Nobody may call it, nor the context at all, with a
// mutex of this package's or the watchdog's held.
func (c *holdContext) look() {
	if c.Context.Err() != nil {
		return
	}
	c.hold.on.look(c.hold)
}

// Under adds to an error of what was called under the context of a hold that has ended, and failed
// for that, which hold that was: the error names the lock that was asked for, and that one may be
// free.
func Under(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil {
		return err
	}
	for h := holdOf(ctx); h != nil; h = holdOf(h.parent) {
		ended := h.reason()
		for _, why := range []error{errs.ErrLost, errs.ErrReleased, errs.ErrClosed} {
			if errors.Is(ended, why) && errors.Is(cause, why) && errors.Is(err, why) {
				key := h.on.of()
				return fmt.Errorf("the hold of %s %s, under whose context it was called, has ended: %w", key.Kind,
					printable.Quote(key.Name), err)
			}
		}
	}
	return err
}
