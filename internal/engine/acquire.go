package engine

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// join gets a hold in a grant that the owner has already. It returns errAgain if that ends
// meanwhile.
func (g *grant) join(r *request) (*Hold, error) {
	if cause := g.base.Over(r.wait); cause != nil {
		return nil, g.left(cause)
	}
	if r.once && !g.isLive() {
		return nil, g.left(nil) // the owner itself is waiting for it, in another goroutine
	}
	if err := g.beginOp(r.wait); err != nil {
		return nil, g.left(err)
	}
	if g.isLive() {
		return g.reenter(r)
	}
	g.endOp()
	return nil, errAgain
}

// errAgain is for a caller that has to begin anew: what it was about to get has ended.
var errAgain = errors.New("the lock was lost or released while it was handed over")

// Over is why nobody should wait any more: the caller's context or the client's end. A context that
// is done beats a lock that is free.
func (b *Lock) Over(wait context.Context) error {
	if b.Client.ctx.Err() != nil {
		return errs.ErrClosed
	}
	return context.Cause(wait)
}

func (g *grant) isLive() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.live && g.ended == nil
}

// queueUp takes the front place of the local queue, or returns one behind others, to wait there.
// While nobody else of this process wants the name that costs nothing: no timer, no context, no
// goroutine. TryLock asks the server even if the place is taken, because only the server knows.
// Where the server has a queue, that is the only one. Who re-enters needs none.
func (g *grant) queueUp(r *request) (p *queue.Ticket) {
	q, key := &g.base.Client.queue, g.base.Key
	switch {
	case g.asked != r, g.base.waiter != nil:
	case r.once:
		g.front = q.TryEnter(key, g)
	default:
		if p = q.Enter(key, g); p == nil {
			g.front = true
		} // else others see the grant from now on
	}
	r.place = p
	return p
}

// acquire gets the hold, after the wait for a place in the local queue, if there was one, or at the
// place that it has at the server; nil if it has none yet.
func (g *grant) acquire(r *request, at Place) (h *Hold, err error) {
	if g.asked != r {
		return g.join(r)
	}
	// The request has the turn of the new grant; it is passed on in any case, and if there is no
	// grant the front place is too.
	defer g.endOp()
	defer g.uncount()
	turn := queue.Free
	if p := r.place; p != nil {
		r.place = nil // by it hangs the one ahead, and by that the one before
		turn, err = p.Outcome()
		if err != nil || turn != queue.Handed {
			g.hear(p.Ahead(), err != nil)
			g.owe(turn, p.Ahead())
		}
		if err == nil && turn != queue.Handed { // who hands it over sets it
			g.front = true
		}
	}
	switch {
	case turn == queue.Handed:
		h, err = g.accept(err)
	case err != nil:
		err = g.left(err)
	default:
		h, err = g.ask(at)
		if err == nil {
			h, err = g.confirm(h)
		}
	}
	if err != nil {
		g.mu.Lock()
		g.atLeast = 0 // nothing has run under it
		g.mu.Unlock()
		g.finish(err, false)
	}
	return h, err
}

// ask gets the grant from the server, after those that it owes that to.
func (g *grant) ask(at Place) (*Hold, error) {
	b := g.base
	if at != nil {
		return at.Take()
	}
	if cause := g.giveWay(nil); cause != nil {
		return nil, g.left(cause)
	}
	if cause := g.prepare(); cause != nil {
		return nil, g.left(cause)
	}
	if b.waiter != nil {
		return b.waiter.Wait((*Acquisition)(g))
	}
	h, denied, err := g.attemptOnce()
	if h != nil || err != nil {
		return h, err
	}
	return g.wait(denied)
}

// prepare is for a grant that is to be asked for. It fails if the wait is over.
func (g *grant) prepare() error {
	if cause := g.count(); cause != nil {
		return cause
	}
	g.bid = g.base.backend.NewBid(g.id)
	g.become(g.id, g.bid.Entry())
	return nil
}

// count makes Close wait for this acquisition from now on: what the server grants in that moment is
// given back before Close returns. It fails if the wait is over. Those in the local queue are not
// counted; they have nothing to give back.
func (g *grant) count() error {
	if !g.counted {
		g.counted = true
		g.base.Client.tasks.Begin()
	}
	return g.base.Over(g.asked.wait)
}

func (g *grant) uncount() {
	if g.counted {
		g.base.Client.tasks.End()
	}
}

// tokens is how many to ask for: more than one if the lock may be handed on.
func (g *grant) tokens() int {
	b, cfg := g.base, &g.asked.want
	if cfg.handOff && cfg.renew && b.Client.queue.Waiting(b.Key) > 0 {
		return b.Client.reserveSize()
	}
	return 1
}

// attempt asks for the lock once. Without a hold and an error it is another's; the time returned is
// when to ask again if nobody tells.
func (g *grant) attempt() (*Hold, time.Duration, error) {
	r, owed := g.asked, &g.courtesy
	start, vain := g.headStart(), owed.vain
	owed.vain, owed.asked = 0, max(owed.asked, start)
	n := g.bid.Ask(Attempt{
		Wait: r.wait, Want: &r.want, Once: r.once, Tokens: g.tokens(), Failed: &g.failed,
		headStart: start, ends: max(owed.asked, vain),
	})
	if n.Refused {
		g.denied(n.By)
		return nil, n.Again, n.By.Mistake(g.base.Key.Name)
	}
	h, err := g.conclude(n)
	return h, 0, err
}

// attemptOnce is the first attempt, which is the only one of who asks once.
func (g *grant) attemptOnce() (*Hold, time.Duration, error) {
	h, denied, err := g.attempt()
	if h == nil && err == nil && g.asked.once {
		err = g.left(nil)
	}
	return h, denied, err
}

// conclude makes the grant live, or says why it will not be.
func (g *grant) conclude(n Result) (*Hold, error) {
	r := g.asked
	switch {
	case n.Left != nil:
		return nil, g.left(n.Left)
	case !n.Granted:
		return nil, g.acquireFailed(r.wait, remote.Outcome{Err: n.Err, Stray: n.stray, Unsent: n.unsent})
	}
	if e := g.bid.Entry(); e != g.entry {
		g.become(e.Owner(), e)
	}
	h, err := g.activate(n.Sent, n.Token, n.Last, r.want.Lease)
	if err != nil {
		g.entry.MarkStray()
		return nil, err
	}
	g.bid.Live(&g.tenure.watch)
	return h, nil
}

// wait sleeps until the lock may be free and tries again, for as long as the wait lasts. It
// subscribes first and then looks once more, so a release in between is not missed: the
// confirmation of a subscription counts as a wake-up, and so does every later one, after a lost
// connection. The end of the holder's lease is announced by nobody, so it is slept for.
func (g *grant) wait(left time.Duration) (*Hold, error) {
	b := g.base
	sub := b.backend.Listen()
	defer sub.Close()
	timer := time.NewTimer(asleep(left))
	defer timer.Stop()
	for {
		if err := g.sleep(sub, timer); err != nil {
			return nil, err
		}
		if cause := g.giveWay(sub.Wake()); cause != nil {
			return nil, g.left(cause)
		}
		h, left, err := g.attempt()
		if h != nil || err != nil {
			return h, err
		}
		timer.Reset(asleep(left))
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
		return g.left(cause)
	}
	return nil
}

// recheck is when a lease of which so much is left will have ended, a millisecond added because a
// key lives through its last one. A key without a time to live (-1) is nobody's lease; it is looked
// at once in a lease of our own.
func (b *Lock) recheck(left time.Duration) time.Duration {
	if left < 0 {
		return b.Client.opts.Lease
	}
	return left + time.Millisecond
}

// asleep is for how long a waiter sleeps that is to ask again after so much time.
func asleep(d time.Duration) time.Duration {
	if control.LeaseEnd.Off() {
		return math.MaxInt64
	}
	return d
}

// Pause returns why nobody should go on, nil when the time is over.
func (b *Lock) Pause(wait context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wait.Done():
	case <-b.Client.ctx.Done():
	}
	return b.Over(wait)
}
