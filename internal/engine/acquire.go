package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// Lock waits for the lock, for as long as the context and [Wait] allow.
func (b *Lock) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return b.lock(ctx, opts, false, nil)
}

// TryLock asks once.
func (b *Lock) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return b.lock(ctx, opts, true, nil)
}

// lock gets a hold for the owner that the context carries. If the owner already has a grant of the
// lock, the hold is added to that grant. Otherwise the owner gets a new grant. a is nil, or the acquisition with which
// lockObserved comes back.
//
// Its frame is on the stack of every waiter, and so is what calls it: 1 KiB is what the runtime leaves of a goroutine's
// first stack. So it has few variables of its own, one deferred call, and no frame between it and the kind's method.
func (b *Lock) lock(ctx context.Context, opts []Option, once bool, a *Acquisition) (h *Hold, err error) {
	if a == nil {
		a = newAcquisition(ctx, b, once)
		if err = a.configure(opts); err != nil {
			return nil, panics.Repanic(err)
		}
		if b.Client.observer != nil {
			return a.lockObserved() // which comes back here
		}
	}
	a.refusable()
	defer a.leave()
	a.late = a.ctx.Err() != nil && !a.want.part
	own := ownerOf(a)
	a.begun = sinceStart()
	for {
		if err = own.enter(a); err != nil {
			return nil, panics.Repanic(err)
		}
		p, at := a.queueUp()
		// Whoever waits does that here, and not further down: ten thousand may, and their stacks are
		// as deep as this. For the same reason the rest is in functions of its own.
		if p != nil {
			a.await(0)
			p.Wait(a.wait)
		} else if at != nil {
			a.await(0)
			at.Stand()
		}
		if h, err = a.acquire(p, at); err == nil {
			a.arrived()
			return h, nil
		} else if !errors.Is(err, errAgain) {
			return h, a.raise(err)
		}
		a.beginAnew()
	}
}

// leave ends the wait.
func (a *Acquisition) leave() {
	a.base.Client.watch.Leave(&a.waited)
	a.cancel()
}

// lockObserved is lock for a client that somebody observes: one Waiting is followed by one Granted or
// one Refused, also if a hook of go-redis panics. (It is called by lock, and not in its place: a frame
// more would enlarge the stack of every waiter, of clients that nobody observes, too.)
func (a *Acquisition) lockObserved() (h *Hold, err error) {
	b := a.base
	o, kind, name := b.Client.observer, b.Key.Kind, b.Key.Name
	ctx, asked, waits := a.ctx, time.Duration(0), false
	err = errHook
	defer func() {
		if err != nil {
			waited := time.Duration(0)
			if waits {
				waited = sinceStart() - asked
			}
			o.TellRefused(ctx, event.Refusal{Kind: kind, Name: name, Waited: waited, Err: err})
		}
	}()
	if o.Waiting != nil {
		_, bounded := a.wait.Deadline()
		ctx = o.TellWaiting(a.ctx, event.Wait{Kind: kind, Name: name, Once: a.once, Bounded: bounded}) // which may end the goroutine
	}
	asked, waits = sinceStart(), true
	if h, err = b.lock(ctx, nil, a.once, a); err == nil {
		a.granted(ctx, h, asked)
	}
	return h, err
}

// granted tells of a grant. If the user's function ends the goroutine, nobody gets the hold: then it is
// given back.
func (a *Acquisition) granted(ctx context.Context, h *Hold, asked time.Duration) {
	o, key, now := a.base.Client.observer, a.base.Key, max(h.since(), asked) // who handed it on may have looked at the clock before this call began
	returned := false
	defer func() {
		h.watch(o.EndNotice(ctx, now))
		if !returned {
			_ = h.GiveBack(context.Background())
		}
	}()
	o.TellGranted(ctx, event.Grant{
		Kind: key.Kind, Name: key.Name, Owner: h.on.ownerID(), Token: h.token, Count: int(h.depth), How: a.how,
		Waited: now - asked, Contended: a.contended,
	})
	returned = true
}

// errHook is returned when a hook of go-redis panicked, or a function of the user's ended the goroutine.
var errHook = errs.Outage(errors.New("a hook of go-redis panicked, or a function of the user's ended the goroutine"))

// queueUp takes the front place of the local queue, or a place p behind others to wait in.
// The front place costs nothing while nobody else in this process wants the name: no timer, no
// context, no goroutine. TryLock asks the server even if the front place is taken, because only the
// server knows whether the lock is free. A re-entry needs no place. Where the server has the queue,
// there is no local one, and a place there is returned if others of this client wait there, too.
func (a *Acquisition) queueUp() (p *queue.Ticket, at Place) {
	g := a.grant
	q, key := &a.base.Client.queue, &a.base.Key
	if g.asked != a {
		return nil, nil
	}
	if w, queues := a.base.backend.(Waiter); queues && !a.once && w.Crowded() && a.prepare() == nil {
		return nil, w.Join(a) // which shares what the others know
	}
	switch {
	case a.base.traits.Together, a.base.traits.Queues: // who shares it lines up only if refused, see lineUp
	case a.once:
		g.front = q.TryEnter(key, g)
	default:
		var front any
		if p, front = q.Enter(key, g); p == nil {
			g.front = true
		} else if ahead, _ := front.(*grant); ahead != nil {
			note, _ := ahead.noted()
			g.share(note)
			ahead.call()
		} // others see the grant from now on
	}
	return p, nil
}

// acquire gets the hold. The wait in the local queue, if there was one, is over: p is the place there. at is the grant's
// place in a queue at the server, nil if it has none yet.
func (a *Acquisition) acquire(p *queue.Ticket, at Place) (h *Hold, err error) {
	g := a.grant
	if g.asked != a {
		return a.join()
	}
	// The acquisition has the turn of its new grant, and passes the turn on in any case. If the lock is
	// not granted, the front place is passed on too. An attempt that goes on has both until it ends.
	goesOn := false
	defer func() {
		if !goesOn {
			g.turn.pass()
		}
		a.uncount()
	}()
	turn := queue.Free
	if p != nil {
		a.contended = true
		turn, err = p.Outcome()
		if err != nil || turn != queue.Handed {
			a.inheritTurns(turn, p.Ahead())
		}
		if err == nil && turn != queue.Handed { // at a hand-over the last holder sets it
			g.front = true
		}
	}
	switch {
	case turn == queue.Handed:
		a.how = event.HandedOn
		h, err = a.takenOver(err)
	case err != nil:
		err = a.waitError(err)
	default:
		if a.base.Client.keeps.Load() {
			if h = a.takeOverIdle(); h != nil {
				a.how = event.FromKept
				return h, nil
			}
		}
		h, err = a.ask(at)
		if err == nil {
			h, err = a.confirm(h)
		}
	}
	if err != nil {
		g.mu.Lock()
		g.atLeast = 0 // nothing has run under it
		g.mu.Unlock()
		if goesOn = a.pending != nil; goesOn {
			a.bequeath(err)
		} else {
			g.finish(err, false)
		}
	}
	return h, err
}

// inheritTurns takes over what the grant ahead in the local queue had still to yield to other clients.
func (a *Acquisition) inheritTurns(turn queue.Handover, ahead any) {
	a.turns = turnTaking{others: turn, each: yieldFor}
	if front, _ := ahead.(*grant); front != nil && turn > 0 {
		front.mu.Lock()
		defer front.mu.Unlock()
		a.turns.each = min(max(front.longest, yieldFor), longestYield)
	}
}

// ask asks the server for the lock, after the clients that are to have it first.
func (a *Acquisition) ask(at Place) (*Hold, error) {
	b := a.base
	if at != nil {
		a.contended = true
		return at.Take()
	}
	if a.turns.others > 0 {
		if cause := a.turns.yieldTurn(a.wait, b, nil); cause != nil {
			return nil, a.waitError(cause)
		}
	}
	if cause := a.prepare(); cause != nil {
		return nil, a.waitError(cause)
	}
	if w, queues := b.backend.(Waiter); queues {
		a.await(2)
		return w.Wait(a)
	}
	h, denied, err := a.attempt()
	if h != nil || err != nil {
		return h, err
	}
	if b.traits.Together {
		if h, err = a.lineUp(); h != nil || err != nil {
			return h, err
		}
	}
	return a.retry(denied)
}

// lineUp is for one who was refused a lock that its others share. One of them at a time listens and
// asks for all; it returns without a hold and an error when that one is the caller. When that one is
// granted the lock, all who line up behind it ask.
func (a *Acquisition) lineUp() (*Hold, error) {
	g := a.grant
	for {
		p, _ := a.base.Client.queue.Enter(&a.base.Key, g)
		if p == nil {
			g.front = true
			return nil, nil
		}
		a.await(3)
		p.Wait(a.wait)
		turn, err := p.Outcome()
		switch {
		case err != nil:
			return nil, a.waitError(err)
		case turn != queue.Together:
			g.front = true
			return nil, nil
		}
		if h, _, err := a.attempt(); h != nil || err != nil {
			return h, err
		}
	}
}

// retry sleeps until the lock may be free and asks again, for as long as the wait lasts. It
// subscribes first and then asks once more, so that no release in between is missed: each
// confirmation of the subscription counts as a wake-up, the first one and those after a lost
// connection. Nobody announces the end of the holder's lease, so retry sleeps no longer than that,
// and no longer than [Rest] says where it cannot listen.
func (a *Acquisition) retry(left time.Duration) (*Hold, error) {
	b := a.base
	a.await(3)
	sub := b.backend.Listen()
	defer sub.Close()
	timer := time.NewTimer(Rest(sub, left))
	defer timer.Stop()
	for {
		if err := a.sleep(sub, timer); err != nil {
			return nil, err
		}
		if cause := a.turns.yieldTurn(a.wait, b, sub.Wake()); cause != nil {
			return nil, a.waitError(cause)
		}
		h, left, err := a.attempt()
		if h != nil || err != nil {
			return h, err
		}
		timer.Reset(Rest(sub, left))
	}
}

// sleep returns nil when it is time for another attempt.
func (a *Acquisition) sleep(sub Listening, timer *time.Timer) error {
	b, wait := a.base, a.wait
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
		return a.waitError(cause)
	}
	return nil
}

// await enters the acquisition among those that wait. It is called where the wait begins, which may be several
// times. skip is how many frames there are up to Lock.lock.
func (a *Acquisition) await(skip int) {
	a.base.show(0)
	a.base.Client.watch.Enter(&a.waited, a.grant, skip+1+above(a.base.Client))
}

// arrived notes, for some, where in the program a grant was asked for.
func (a *Acquisition) arrived() {
	g := a.grant
	a.base.show(a.want.atLeast)
	if g.asked == a && a.how == event.Asked {
		a.base.Client.watch.NoteHolder(&a.waited, start.Add(g.granted), 1+above(a.base.Client))
	}
}

// above is how many frames there are from Lock.lock up to the kind's method.
func above(c *Client) int {
	if c.observer != nil {
		return 4 // lock, lockObserved, lock, Lock
	}
	return 2 // lock, Lock
}
