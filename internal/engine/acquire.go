package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// Lock waits for the lock, for as long as the context and [Wait] allow.
func (b *Lock) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return b.lock(&request{ctx: ctx}, opts)
}

// TryLock asks once.
func (b *Lock) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return b.lock(&request{ctx: ctx, once: true}, opts)
}

// lock gets a hold for the owner that the context carries. If the owner already has a grant of the
// lock, the hold is added to that grant. Otherwise the owner gets a new grant.
func (b *Lock) lock(r *request, opts []Option) (*Hold, error) {
	if !r.heard {
		if err := b.prepare(r, opts); err != nil {
			return nil, panics.Repanic(err)
		}
		if b.Client.observer != nil {
			return b.lockObserved(r) // which comes back here
		}
	}
	r.refusable(b)
	defer r.cancel()
	defer b.Client.watch.Leave(&r.entry)
	r.late = r.ctx.Err() != nil && !r.want.part
	own := ownerOf(r, b)
	for {
		g, failed := own.enter(b, r)
		if failed != nil {
			return nil, panics.Repanic(failed)
		}
		at := g.queueUp(r)
		// Whoever waits does that here, and not further down: ten thousand may, and their stacks are
		// as deep as this. For the same reason the rest is in functions of its own.
		if r.place != nil {
			g.await(0)
			r.place.Wait(r.wait)
		} else if at != nil {
			g.await(0)
			at.Stand()
		}
		if h, err := g.acquire(r, at); !errors.Is(err, errAgain) {
			if err == nil {
				g.arrived(r)
			}
			return h, r.raise(b, err)
		}
		r.rearm()
	}
}

// lockObserved is lock for a client that somebody observes: one Waiting is followed by one Granted or
// one Refused, also if a hook of go-redis panics. (It is called by lock, and not in its place: a frame
// more would enlarge the stack of every waiter, of clients that nobody observes, too.)
func (b *Lock) lockObserved(r *request) (h *Hold, err error) {
	o, kind, name := b.Client.observer, b.Key.Kind, b.Key.Name
	r.heard = true
	ctx, asked, waits := r.ctx, time.Duration(0), false
	err = errHook
	defer func() {
		if err != nil {
			waited := time.Duration(0)
			if waits {
				waited = sinceStart() - asked
			}
			o.TellRefused(ctx, notify.RefusalEvent{Kind: kind, Name: name, Waited: waited, Err: err})
		}
	}()
	if o.Waiting != nil {
		_, bounded := r.wait.Deadline()
		ctx = o.TellWaiting(r.ctx, notify.WaitEvent{Kind: kind, Name: name, Once: r.once, Bounded: bounded}) // which may end the goroutine
	}
	asked, waits = sinceStart(), true
	if h, err = b.lock(r, nil); err == nil {
		b.granted(ctx, r, h, asked)
	}
	return h, err
}

// granted tells of a grant. If the user's function ends the goroutine, nobody gets the hold: then it is
// given back.
func (b *Lock) granted(ctx context.Context, r *request, h *Hold, asked time.Duration) {
	o, now := b.Client.observer, max(h.since(), asked) // who handed it on may have looked at the clock before this call began
	returned := false
	defer func() {
		h.watch(o.EndNotice(ctx, now))
		if !returned {
			_ = h.GiveBack(context.Background())
		}
	}()
	o.TellGranted(ctx, notify.GrantEvent{
		Kind: b.Key.Kind, Name: b.Key.Name, Owner: h.on.ownerID(), Token: h.token, Count: int(h.depth), How: r.how,
		Waited: now - asked, Contended: r.contended,
	})
	returned = true
}

// raise is the error of a request as users see it; nil for nil.
func (r *request) raise(b *Lock, err error) error {
	if err == nil {
		return nil
	}
	if r.late && (errors.Is(err, errs.ErrUnavailable) || errors.Is(err, errs.ErrNotAcquired)) {
		err = errs.Unasked(b.Over(r.ctx))
	}
	return panics.Repanic(b.withUpgradeError(Under(r.ctx, err)))
}

// errHook is returned when a hook of go-redis panicked, or a function of the user's ended the goroutine.
var errHook = errs.Outage(errors.New("a hook of go-redis panicked, or a function of the user's ended the goroutine"))

// queueUp takes the front place of the local queue, or a place behind others to wait in.
// The front place costs nothing while nobody else in this process wants the name: no timer, no
// context, no goroutine. TryLock asks the server even if the front place is taken, because only the
// server knows whether the lock is free. A re-entry needs no place. Where the server has the queue,
// there is no local one, and a place there is returned if others of this client wait there, too.
func (g *grant) queueUp(r *request) Place {
	q, key := &g.base.Client.queue, g.base.Key
	if g.asked != r {
		return nil
	}
	if w := g.base.waiter(); w != nil && !r.once && w.Crowded() && g.prepare() == nil {
		return w.Join((*Acquisition)(g)) // which shares what the others know
	}
	switch {
	case g.base.traits.Together, g.base.traits.Queues: // who shares it lines up only if refused, see lineUp
	case r.once:
		g.front = q.TryEnter(key, g)
	default:
		var front any
		if r.place, front = q.Enter(key, g); r.place == nil {
			g.front = true
		} else if ahead, _ := front.(*grant); ahead != nil {
			note, _ := ahead.noted()
			g.share(note)
			ahead.call()
		} // others see the grant from now on
	}
	return nil
}

// acquire gets the hold. The wait in the local queue, if there was one, is over. at is the grant's
// place in a queue at the server, nil if it has none yet.
func (g *grant) acquire(r *request, at Place) (h *Hold, err error) {
	if g.asked != r {
		return g.join(r)
	}
	// The request has the turn of the new grant, and passes the turn on in any case. If the lock is
	// not granted, the front place is passed on too. An attempt that goes on has both until it ends.
	goesOn := false
	defer func() {
		if !goesOn {
			g.endOp()
		}
		g.uncount()
	}()
	turn := queue.Free
	if p := r.place; p != nil {
		r.contended = true
		r.place = nil // it refers to the place ahead, and so to all earlier ones
		turn, err = p.Outcome()
		if err != nil || turn != queue.Handed {
			g.inheritTurns(turn, p.Ahead())
		}
		if err == nil && turn != queue.Handed { // at a hand-over the last holder sets it
			g.front = true
		}
	}
	switch {
	case turn == queue.Handed:
		r.how = notify.HandedOn
		h, err = g.takenOver(err)
	case err != nil:
		err = g.waitError(err)
	default:
		if h = g.takeOverIdle(); h != nil {
			r.how = notify.FromKept
			return h, nil
		}
		h, err = g.ask(at)
		if err == nil {
			h, err = g.confirm(h)
		}
	}
	if err != nil {
		g.mu.Lock()
		g.atLeast = 0 // nothing has run under it
		g.mu.Unlock()
		if goesOn = g.late != nil; goesOn {
			g.bequeath(err)
		} else {
			g.finish(err, false)
		}
	}
	return h, err
}

// inheritTurns takes over what the grant ahead in the local queue had still to yield to other clients.
func (g *grant) inheritTurns(turn queue.Handover, ahead any) {
	g.turns = turnTaking{others: turn, each: yieldFor}
	if front, _ := ahead.(*grant); front != nil && turn > 0 {
		front.mu.Lock()
		defer front.mu.Unlock()
		g.turns.each = min(max(front.longest, yieldFor), longestYield)
	}
}

// ask asks the server for the lock, after the clients that are to have it first.
func (g *grant) ask(at Place) (*Hold, error) {
	b := g.base
	if at != nil {
		g.asked.contended = true
		return at.Take()
	}
	if cause := g.turns.yieldTurn(g.asked.wait, b, nil); cause != nil {
		return nil, g.waitError(cause)
	}
	if cause := g.prepare(); cause != nil {
		return nil, g.waitError(cause)
	}
	if w := b.waiter(); w != nil {
		g.await(2)
		return w.Wait((*Acquisition)(g))
	}
	h, denied, err := g.attemptOnce()
	if h != nil || err != nil {
		return h, err
	}
	if b.traits.Together {
		if h, err = g.lineUp(); h != nil || err != nil {
			return h, err
		}
	}
	return g.wait(denied)
}

// lineUp is for one who was refused a lock that its others share. One of them at a time listens and
// asks for all; it returns without a hold and an error when that one is the caller. When that one is
// granted the lock, all who line up behind it ask.
func (g *grant) lineUp() (*Hold, error) {
	for {
		p, _ := g.base.Client.queue.Enter(g.base.Key, g)
		if p == nil {
			g.front = true
			return nil, nil
		}
		g.await(3)
		p.Wait(g.asked.wait)
		turn, err := p.Outcome()
		switch {
		case err != nil:
			return nil, g.waitError(err)
		case turn != queue.Together:
			g.front = true
			return nil, nil
		}
		if h, _, err := g.attempt(); h != nil || err != nil {
			return h, err
		}
	}
}

// wait sleeps until the lock may be free and tries again, for as long as the wait lasts. It
// subscribes first and then asks once more, so that no release in between is missed: each
// confirmation of the subscription counts as a wake-up, the first one and those after a lost
// connection. Nobody announces the end of the holder's lease, so wait sleeps no longer than that,
// and no longer than [Rest] says where it cannot listen.
func (g *grant) wait(left time.Duration) (*Hold, error) {
	b := g.base
	g.await(3)
	sub := b.backend.Listen()
	defer sub.Close()
	timer := time.NewTimer(Rest(sub, left))
	defer timer.Stop()
	for {
		if err := g.sleep(sub, timer); err != nil {
			return nil, err
		}
		if cause := g.turns.yieldTurn(g.asked.wait, b, sub.Wake()); cause != nil {
			return nil, g.waitError(cause)
		}
		h, left, err := g.attempt()
		if h != nil || err != nil {
			return h, err
		}
		timer.Reset(Rest(sub, left))
	}
}

// sleep returns nil when it is time for another attempt.
func (g *grant) sleep(sub Listening, timer *time.Timer) error {
	b, wait := g.base, g.asked.wait
	select {
	case <-sub.Wake():
		if err := sub.Err(); err != nil && b.Over(wait) == nil {
			return errs.Both(errors.New("cannot listen for the release; permit this user to subscribe to "+
				b.wire.Channel()), err)
		}
	case <-timer.C:
	case <-wait.Done():
	case <-b.Client.ctx.Done():
	}
	if cause := b.Over(wait); cause != nil {
		return g.waitError(cause)
	}
	return nil
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
