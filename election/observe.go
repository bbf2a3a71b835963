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
//			log.Print(err) // it is not known who leads; the loop goes on when it is
//			continue
//		}
//		use(leader.Value)
//	}
//
// Observe never misses a leadership that lasts, even if messages are lost or the connection is cut.
// If several changes happen while the loop is busy, or while the connection is down, it may report
// only the last one.
//
// While Redis does not say who leads, the sequence yields one error with the zero Leader, and
// another one if the kind of failure changes: [holdfast.ErrUnavailable] if Redis does not answer,
// or its refusal, such as a missing permission. It goes on when Redis answers. Meanwhile it is not
// known who leads: the last reported leader may lead until its Remaining is over. The last error of
// the sequence is [holdfast.ErrInvalid] for a bad argument, or [holdfast.ErrClosed]. The end of ctx
// is not an error.
//
// While the connection stands, an observer asks once per change, and once when the lease of the
// leader would have ended. While nobody leads, it asks once in a lease of its client. Without a
// connection it asks once a second, and at least once in 16 seconds while Redis refuses it.
// Observers of one client share a connection.
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
		o := observer{election: e, yield: yield}
		for o.follow(ctx) {
		}
	}
}

// observer is one loop over what Observe returns.
type observer struct {
	election *Election
	yield    func(Leader, error) bool
	began    bool     // something was told
	last     Leader   // that was told
	looks    failures // to ask who leads
	listens  failures // to subscribe
	again    time.Duration
}

// follow looks again and again, and reports whether to go on with another subscription.
func (o *observer) follow(ctx context.Context) bool {
	e := o.election
	// Subscribed first: what changes after the look is told.
	sub := e.base.Client.Hub().Subscribe(e.wire.channel)
	defer sub.Close()
	for o.check(ctx) && o.wait(ctx, sub) {
		if err := sub.Err(); err != nil && e.base.Client.Context().Err() == nil {
			deaf := errs.Both(errors.New("cannot listen for changes; permit this user to subscribe to "+e.wire.channel), err)
			if o.looks == (failures{}) && !o.fail(&o.listens, deaf) { // otherwise that was told which is the matter
				return false
			}
			return e.base.Pause(ctx, o.again) == nil
		}
		o.listens = failures{}
	}
	return false
}

// check asks who leads, and tells if that is news. It reports whether to go on.
func (o *observer) check(ctx context.Context) bool {
	now, err := o.election.ask(ctx)
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		return o.fail(&o.looks, err)
	}
	o.looks = failures{}
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

// fail notes that it is not known who leads, and tells that if it is news. It reports whether to go on: after a rest, or
// when a subscription is confirmed again.
func (o *observer) fail(in *failures, err error) bool {
	var news bool
	news, o.again = in.add(err)
	if !news {
		return true
	}
	return o.yield(Leader{}, o.election.fail("observe", err)) && passes(err)
}

// isSame reports whether both are one term of one leader.
func isSame(a, b Leader) bool { return a.Token == b.Token && a.Owner == b.Owner && a.Value == b.Value }

// wait waits until there is a reason to look, and reports whether there is one.
func (o *observer) wait(ctx context.Context, sub engine.Listening) bool {
	rest := o.again
	if o.looks == (failures{}) { // otherwise it rests as long as is due to whoever refused it
		rest = engine.Rest(sub, rest)
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-sub.Wake():
	case <-timer.C:
	case <-o.election.base.Client.Context().Done():
	case <-ctx.Done():
		return false
	}
	return true
}
