package election

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
)

// Observe reports who leads: first the present leader, and then each change. The zero Leader means
// that nobody leads. The sequence ends when ctx ends, when the client is closed, and when the loop
// over it is left. You may range over it more than once; each time it begins with the present
// leader.
//
//	for leader, err := range e.Observe(ctx) {
//		if err != nil {
//			log.Print(err) // Redis does not answer; the loop goes on when it does
//			continue
//		}
//		use(leader.Value)
//	}
//
// Observe never misses a leadership that lasts, even if messages are lost or the connection is cut.
// If several changes happen while the loop is busy, or while the connection is down, it may report
// only the last one.
//
// While Redis does not answer, the sequence yields one error, an [holdfast.ErrUnavailable], with
// the zero Leader. It goes on when Redis answers again. Meanwhile it is not known who leads: the
// last reported leader may lead until its Remaining is over. Any other error is the last of the
// sequence: [holdfast.ErrInvalid] for a bad argument, [holdfast.ErrClosed], or a refusal by Redis,
// such as a missing permission. The end of ctx is not an error.
//
// While the connection stands, an observer asks once per change, and once when the lease of the
// leader would have ended. While nobody leads, it asks once in a lease of its client. Without a
// connection it asks once a second. Observers of one client share a connection.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		err := e.check("observe")
		if err == nil {
			err = e.fail("observe", errs.CheckContext(ctx))
		}
		if err == nil {
			err = e.fail("observe", e.base.Err)
		}
		if err != nil {
			yield(Leader{}, err)
			return
		}
		// Subscribed first: what changes after the look is told.
		sub := e.base.Client.Hub().Subscribe(e.wire.channel)
		defer sub.Close()
		o := observer{election: e, yield: yield}
		for o.check(ctx) {
			if !o.wait(ctx, sub) {
				return
			}
			if err := sub.Err(); err != nil && e.base.Client.Context().Err() == nil {
				yield(Leader{}, e.fail("observe", errs.Both(errors.New("cannot listen for changes; permit this user to subscribe to "+
					e.wire.channel), err)))
				return
			}
		}
	}
}

// observer is one loop over what Observe returns.
type observer struct {
	election *Election
	yield    func(Leader, error) bool
	began    bool   // something was told
	last     Leader // that was told
	silent   bool   // the last look got no answer, which was told
	again    time.Duration
}

// check asks who leads, and tells if that is news. It reports whether to go on.
func (o *observer) check(ctx context.Context) bool {
	now, err := o.election.ask(ctx)
	o.again = -1
	switch {
	case ctx.Err() != nil:
		return false
	case errors.Is(err, errs.ErrUnavailable):
		o.again = campaignPause // a subscription that is confirmed again wakes it before
		if o.silent {
			return true
		}
		o.silent = true
		return o.yield(Leader{}, o.election.fail("observe", err))
	case err != nil:
		o.yield(Leader{}, o.election.fail("observe", err))
		return false
	}
	o.silent = false
	switch {
	case now == Leader{}, now.Remaining < 0: // nobody, or not a lease of ours
		o.again = o.election.base.Client.DefaultLease()
	default:
		o.again = now.Remaining + time.Millisecond // a key lives through its last one
	}
	if o.began && isSame(now, o.last) {
		return true
	}
	o.began, o.last = true, now
	return o.yield(now, nil)
}

// isSame reports whether both are one term of one leader.
func isSame(a, b Leader) bool { return a.Token == b.Token && a.Owner == b.Owner && a.Value == b.Value }

// wait waits until there is a reason to look, and reports whether there is one.
func (o *observer) wait(ctx context.Context, sub engine.Listening) bool {
	var ends <-chan time.Time
	if o.again >= 0 {
		timer := time.NewTimer(engine.Rest(sub, o.again))
		defer timer.Stop()
		ends = timer.C
	}
	select {
	case <-sub.Wake():
	case <-ends:
	case <-o.election.base.Client.Context().Done():
	case <-ctx.Done():
		return false
	}
	return true
}
