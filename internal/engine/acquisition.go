package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/waitwatch"
)

// Acquisition is one call of Lock or TryLock: what the caller wants, how long it waits, and what was
// asked for it so far. It ends with a hold or an error. What it is granted is the grant's: an acquisition
// that re-enters has the grant of its owner, every other one has a grant that was made for it.
//
// Its fields belong to the goroutine that acquires, unless they say otherwise. Its exported methods are
// what a [Waiter] sees of it, in place.go.
type Acquisition struct {
	base  *Lock
	ctx   context.Context // the caller's, from which the hold derives
	want  *Settings       // is not changed: all calls without options have the same
	grant *grant          // that is asked for, or re-entered
	spare *spare          // room for its owner and its grant; nil: none, or used

	// The wait.

	wait   context.Context    // bounds it
	cancel context.CancelFunc // frees what wait takes
	early  *early             // how others end the wait early; nil: nobody has to
	begun  time.Duration      // when the lock was wanted, by sinceStart
	waited waitwatch.Entry    // among those that wait; guarded by package waitwatch

	attempts
	once bool // the server is asked once
	late bool // ctx had ended before the call

	// For the observer.

	contended bool      // somebody else had the lock, or stood before
	how       event.How // the lock was granted
}

// attempts are what was asked for one grant. An acquisition that begins anew begins with none.
type attempts struct {
	acquirer Acquirer      // nil before the server is asked, or if the lock was handed over
	turns    turnTaking    // how it yields to other clients
	slow     time.Duration // when an answer first came too late, by sinceStart; 0: none did
	pending  <-chan Result // of an attempt that goes on without the caller; nil: none does
	counted  bool          // Close waits for the acquisition
}

// early lets others end a wait. Few waits have that.
type early struct {
	whole  context.Context         // the wait, whoever ends it early by refuse
	refuse context.CancelCauseFunc // written before the owner has a grant that was made for the acquisition
}

// spare is room for the owner and the grant of a call whose context carries no owner, which nearly every call needs. It is one
// piece with the acquisition, because an allocation costs more than its bytes.
type spare struct {
	owner
	noted
}

func newAcquisition(ctx context.Context, b *Lock, once bool) *Acquisition {
	if ctx == nil || HasOwner(ctx) {
		return &Acquisition{base: b, ctx: ctx, once: once}
	}
	both := &struct {
		Acquisition
		spare
	}{Acquisition: Acquisition{base: b, ctx: ctx, once: once}}
	both.Acquisition.spare = &both.spare
	return &both.Acquisition
}

// newOwner makes the owner of a call whose context carries none.
func (a *Acquisition) newOwner() *owner {
	if a.spare == nil {
		return newOwner()
	}
	return a.spare.owner.init()
}

// newNoted makes room for a grant.
func (a *Acquisition) newNoted() *noted {
	s := a.spare
	if s == nil {
		return new(noted)
	}
	a.spare = nil // the acquisition may begin anew, with another grant
	return &s.noted
}

var errWaited = errors.New("waited as long as Wait allows")

// errAgain says that an acquisition has to begin anew: the grant that it was about to join has ended, or its
// owner was granted another side of the lock, beside which it need not wait.
var errAgain = errors.New("the lock was lost or released while it was handed over")

// configure applies the options of the call.
func (a *Acquisition) configure(opts []Option) error {
	var err error
	if a.want, err = a.base.settings(opts); err != nil {
		return err
	}
	if err := errs.CheckContext(a.ctx); err != nil {
		return err
	}
	a.wait, a.cancel = a.ctx, func() {}
	switch {
	case a.want.waitSet && a.want.wait == 0:
		a.once = true
	case a.want.waitSet:
		a.wait, a.cancel = context.WithTimeoutCause(a.ctx, a.want.wait, errWaited)
	}
	return nil
}

// refusable is a wait that can be ended by [grant.endSibling], where that may be necessary: if the
// caller's context carries an owner, and not the one that is made for the call.
func (a *Acquisition) refusable() {
	if _, carried := a.ctx.Value(ownerKey{}).(*owner); !carried || a.once || !a.base.traits.Sided {
		return
	}
	a.early = &early{whole: a.wait}
	a.beginAnew()
	cancel := a.cancel
	a.cancel = func() { a.early.refuse(nil); cancel() }
}

// beginAnew is for an acquisition that begins anew: the last attempt's wait may have been ended for that.
func (a *Acquisition) beginAnew() {
	a.attempts = attempts{} // none goes on: that is for an acquisition that nobody ends early, see others
	if e := a.early; e != nil && (e.refuse == nil || a.wait.Err() != nil) {
		a.wait, e.refuse = context.WithCancelCause(e.whole)
	}
}

// raise is the error of an acquisition as users see it; nil for nil.
func (a *Acquisition) raise(err error) error {
	if err == nil {
		return nil
	}
	if a.late && (errors.Is(err, errs.ErrUnavailable) || errors.Is(err, errs.ErrNotAcquired)) {
		err = errs.Unasked(a.base.Over(a.ctx))
	}
	return panics.Repanic(a.base.withUpgradeError(Under(a.ctx, err)))
}
