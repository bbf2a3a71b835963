package holdfast

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/lua"
)

// join gets a hold in a grant that the owner has already. It returns errAgain if that ends meanwhile.
func (g *grant) join(r *request) (*Hold, error) {
	if cause := g.base.over(r.wait); cause != nil {
		return nil, g.base.left(cause)
	}
	if r.once && !g.isLive() {
		return nil, ErrNotAcquired // the owner itself is waiting for it, in another goroutine
	}
	if err := g.takeTurn(r.wait); err != nil {
		return nil, g.base.left(err)
	}
	if g.isLive() {
		return g.reenter(r)
	}
	g.passTurn()
	return nil, errAgain
}

// errAgain is for a caller that has to begin anew: what it was about to get has ended.
var errAgain = errors.New("the lock was lost or released while it was handed over")

// over is why nobody should wait any more: the caller's context or the client's end. A context that is done beats a lock
// that is free.
func (b *Base) over(wait context.Context) error {
	if b.client.ctx.Err() != nil {
		return ErrClosed
	}
	return context.Cause(wait)
}

// because adds to the end of a wait what had kept it from succeeding: an error of Redis must not hide behind a timeout.
func because(cause, failure error) error {
	if failure == nil || errors.Is(failure, cause) {
		return cause
	}
	return both{cause, failure}
}

// left is the error of a caller that stopped waiting because of cause.
func (b *Base) left(cause error) error {
	if errors.Is(cause, ErrClosed) {
		return ErrClosed
	}
	return both{ErrNotAcquired, cause}
}

// markStray remembers that the server may have granted this, or may yet: a command for it may still be on its way. It is given
// back at its end, and its owner id is not used again, lest the straggler take a lock for nobody, or release one that was
// granted later.
func (g *grant) markStray() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stray = true
}

// leaveUndo is markStray where the operation that is under way gives it back when it has ended.
func (g *grant) leaveUndo() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stray, g.undone = true, true
}

func (g *grant) isStray() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stray
}

func (g *grant) isLive() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.live && g.ended == nil
}

// queueUp takes the front place of the local queue, or returns one behind others, to wait there. While nobody else of this process
// wants the name that costs nothing: no timer, no context, no goroutine. TryLock asks the server even if the place is taken,
// because only the server knows. Where the server has a queue, that is the only one. Who re-enters needs none.
func (g *grant) queueUp(r *request) (p *queue.Place) {
	q, key := &g.base.client.queue, g.base.key
	switch {
	case g.asked != r, g.base.queuer != nil:
	case r.once:
		g.front = q.TryEnter(key)
	default:
		if p = q.Enter(key, g); p == nil {
			g.front = true
		} // else others see the grant from now on
	}
	r.place = p
	return p
}

// acquire gets the hold, after the wait for a place in the local queue, if there was one.
func (g *grant) acquire(r *request) (h *Hold, err error) {
	if g.asked != r {
		return g.join(r)
	}
	// The request has the turn of the new grant; it is passed on in any case, and if there is no grant the front place is too.
	defer g.passTurn()
	defer g.uncount()
	turn := queue.Free
	if r.place != nil {
		turn, err = r.place.Outcome()
	}
	switch {
	case turn == queue.Handed:
		h, err = g.accept(err)
	case err != nil:
		err = g.base.left(err)
	default:
		g.front = g.front || r.place != nil
		h, err = g.ask(turn)
		if err == nil {
			h, err = g.confirm(h)
		}
	}
	if err != nil {
		g.mu.Lock()
		g.lease = r.want.lease // of what may have to be undone
		g.mu.Unlock()
		g.finish(err, false)
	}
	return h, err
}

// ask gets the grant from the server, after so many other clients.
func (g *grant) ask(others queue.Turn) (*Hold, error) {
	b, r := g.base, g.asked
	if cause := b.yield(r.wait, &others); cause != nil {
		return nil, b.left(cause)
	}
	if cause := g.count(); cause != nil {
		return nil, b.left(cause)
	}
	if b.queuer != nil {
		return g.standInLine()
	}
	h, denied, err := g.attempt(false)
	switch {
	case h != nil || err != nil:
		return h, err
	case r.once:
		return nil, ErrNotAcquired
	}
	return g.wait(denied, others)
}

// count makes Close wait for this acquisition from now on: what the server grants in that moment is given back before Close
// returns. It fails if the wait is over. Those in the local queue are not counted; they have nothing to give back.
func (g *grant) count() error {
	g.counted = true
	g.base.client.tasks.Begin()
	return g.base.over(g.asked.wait)
}

func (g *grant) uncount() {
	if g.counted {
		g.base.client.tasks.End()
	}
}

// tokens is how many to ask for: more than one if the lock may be handed on.
func (g *grant) tokens() int {
	b, cfg := g.base, &g.asked.want
	if cfg.handOff && cfg.renew && b.client.queue.Waiting(b.key) > 0 {
		return b.client.wanted()
	}
	return 1
}

// attempt asks the server once. Without a hold and an error the lock is another's, for at least the time returned. What may
// have been granted, or may be yet, is marked, and given back when the grant ends.
// place asks for a place in the queue of a kind that has one.
func (g *grant) attempt(place bool) (*Hold, time.Duration, error) {
	if g.base.quorum != nil {
		return g.elect(g.refused)
	}
	b, wait, cfg := g.base, g.asked.wait, &g.asked.want
	tokens := g.tokens()
	before := g.isStray() // one of the attempts before this one may be what is in our way
	op := func(again bool) lua.Call {
		return b.protocol.Acquire(kind.Ask{
			Owner: g.id, Lease: cfg.lease, Again: again || before, Place: place, Publish: b.client.publish, Tokens: tokens,
		})
	}
	// A caller that left in the middle of it may have been granted the lock: late gives it back, as soon as that is known.
	o, ok := b.client.call(wait, g.server, op, func(o outcome) {
		if before || o.stray || place || o.err == nil && o.reply.Status == lua.Done {
			g.server.undo(b, kind.Names{g.id}, cfg.lease, true)
		}
	})
	if !ok {
		g.leaveUndo()
		return nil, 0, b.left(because(context.Cause(wait), o.err))
	}
	if o.stray {
		g.markStray()
	}
	switch {
	case o.err != nil:
		return nil, 0, b.gaveUp(wait, o)
	case o.reply.Status == lua.Denied && place:
		g.refusedAt = b.client.lines.sync(b.key, o.sent, o.reply.Text(1))
		fallthrough
	case o.reply.Status == lua.Denied:
		return nil, time.Duration(o.reply.Int(0)) * time.Millisecond, nil
	}
	if cause := b.over(wait); cause != nil {
		g.markStray()
		return nil, 0, b.left(cause)
	}
	h, err := g.activate(o.sent, o.reply.Text(0), o.reply.Text(1), cfg.lease)
	if err != nil {
		g.markStray()
	}
	return h, 0, err
}

// wait sleeps until the lock may be free and tries again, for as long as the wait lasts. It subscribes first and then looks
// once more, so a release in between is not missed: the confirmation of a subscription counts as a wake-up, and so does
// every later one, after a lost connection. The end of the holder's lease is announced by nobody, so it is slept for.
func (g *grant) wait(left time.Duration, others queue.Turn) (*Hold, error) {
	b := g.base
	g.refused = true
	sub := b.listen()
	defer sub.Close()
	timer := time.NewTimer(b.recheck(left))
	defer timer.Stop()
	for {
		if err := b.sleep(g.asked.wait, sub, timer); err != nil {
			return nil, err
		}
		if cause := b.yield(g.asked.wait, &others); cause != nil {
			return nil, b.left(cause)
		}
		h, left, err := g.attempt(false)
		if h != nil || err != nil {
			return h, err
		}
		timer.Reset(b.recheck(left))
	}
}

// sleep returns nil when it is time for another attempt.
func (b *Base) sleep(wait context.Context, sub listening, timer *time.Timer) error {
	select {
	case <-sub.Wake():
		if err := sub.Err(); err != nil && b.over(wait) == nil {
			return both{errors.New("cannot listen for the release; permit this user to subscribe to " +
				b.wire.Channel()), err}
		}
	case <-timer.C:
	case <-wait.Done():
	case <-b.client.ctx.Done():
	}
	if cause := b.over(wait); cause != nil {
		return b.left(cause)
	}
	return nil
}

// recheck is when a lease of which so much is left will have ended, a millisecond added because a key lives through its
// last one. A key without a time to live (-1) is nobody's lease; it is looked at once in a lease of our own.
func (b *Base) recheck(left time.Duration) time.Duration {
	switch {
	case control.LeaseEnd.Off():
		return math.MaxInt64
	case b.quorum != nil:
		return left // has been made up there
	case left < 0:
		return b.client.opts.Lease
	}
	return left + time.Millisecond
}
