package engine

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/waitwatch"
)

// request is one call of Lock or TryLock.
type request struct {
	want   Settings
	ctx    context.Context         // the caller's, from which the hold derives
	wait   context.Context         // bounds the waiting
	cancel context.CancelFunc      // frees what wait takes
	whole  context.Context         // the wait, whoever ends it early by refuse; nil if nobody has to
	refuse context.CancelCauseFunc // of that; written before the owner has a grant that was made for the request
	once   bool                    // the server is asked once
	late   bool                    // ctx had ended before the call
	heard  bool                    // the observer has heard of it
	// for the observer: how it was granted, and whether somebody else had the lock or stood before.
	// They are of the goroutine that asks
	how       notify.How
	contended bool
	place     *queue.Ticket   // in the local queue, if it had to wait there
	entry     waitwatch.Entry // among those that wait
}

// prepare applies the options to a request that has the rest.
func (b *Lock) prepare(r *request, opts []Option) error {
	if err := b.Configure(&r.want, opts); err != nil {
		return err
	}
	if err := errs.CheckContext(r.ctx); err != nil {
		return err
	}
	r.wait, r.cancel = r.ctx, func() {}
	switch {
	case r.want.waitSet && r.want.wait == 0:
		r.once = true
	case r.want.waitSet:
		r.wait, r.cancel = context.WithTimeoutCause(r.ctx, r.want.wait, errWaited)
	}
	return nil
}

var errWaited = errors.New("waited as long as Wait allows")

// errAgain says that a request has to begin anew: the grant that it was about to join has ended, or its
// owner was granted another side of the lock, beside which it need not wait.
var errAgain = errors.New("the lock was lost or released while it was handed over")
