package engine

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// handOff ends the grant by leaving the lock to a waiter of this client, if that can be, instead of
// releasing it. It reports whether the grant has ended, and then what Unlock is to return.
func (g *grant) handOff(ctx context.Context) (ended bool, err error) {
	switch {
	case !g.mayHandOff():
		return false, nil
	case g.tenure.fresh():
		return g.hand(), nil
	}
	return g.pass(ctx)
}

// mayHandOff reports whether there is somebody to hand the lock to, and time enough: where renewals
// fail, the lock goes back to the server before its lease is nearly over. Nor is a lease handed on
// that stands for longer than the next one asks for, or may; and who has the lock by TryLock, and
// not the front place, leaves it to the one who has that, who asks the server.
func (g *grant) mayHandOff() bool {
	b, want := g.base, &g.asked.want
	g.mu.Lock()
	lease, can := g.lease, want.handOff && want.renew && !g.entry.IsStray() && g.ended == nil
	can = can && !g.longer && g.front
	g.mu.Unlock()
	return can && b.Client.ctx.Err() == nil && b.Client.queue.Waiting(b.Key) > 0 &&
		time.Until(b.Dog.Deadline(&g.tenure.watch)) > lease/2
}

// hand makes the first waiter of this client the holder. The hash goes on naming it by the id of
// this grant, which is not used again: else the owner that the lock was handed on from would be
// taken for the one that has it.
func (g *grant) hand() bool {
	b, t := g.base, g.tenure
	deadline := b.Dog.Deadline(&t.watch)
	if !b.Client.queue.Hand(b.Key, func(who any) bool { return t.give(g, who.(*grant)) }) {
		return false
	}
	g.mu.Lock()
	g.ended, g.until, g.front = errs.ErrReleased, deadline, false
	g.mu.Unlock()
	g.owner.drop(g, true)
	return true
}

// give makes a waiter of this client the holder in place of the one that leaves. It is called with
// the queue's mutex held.
func (t *Tenure) give(from, to *grant) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	want := &to.asked.want
	if t.over || t.holder != from || !want.handOff || !want.renew || want.Lease != from.lease ||
		!from.confirmed.Cover(want.Replicas) {
		return false
	}
	h := &Hold{on: to, parent: to.asked.ctx, depth: 1, token: t.nextLocked(), renewed: true}
	t.used++
	t.holder = to
	to.mu.Lock()
	to.live, to.front, to.tenure, to.entry, to.id = true, true, t, t.Entry, t.Entry.Owner()
	to.token, to.lease, to.renew, to.confirmed = h.token, want.Lease, true, from.confirmed
	to.holds = append(to.holds, h)
	to.mu.Unlock()
	return true
}

// pass asks the server to keep the lock for the waiters of this client, or to release it if others
// want it.
func (g *grant) pass(ctx context.Context) (ended bool, err error) {
	b, t := g.base, g.tenure
	c := b.Client
	t.noteUse()
	tokens := c.reserveSize()
	o := g.entry.Pass(ctx, g.lease, tokens)
	if o.Err == nil && o.Reply.Status == lua.Done {
		if !o.Stray {
			return g.kept(o)
		}
		// An attempt that comes late may find others, and release the lock: it is not to be a later
		// holder's.
		g.entry.MarkStray()
		return false, nil
	}
	watched := b.Dog.Forget(&t.watch)
	switch {
	case o.Err != nil:
		g.finish(errs.ErrReleased, true) // goes on in the background
		return true, b.Uncertain(o)
	case o.Reply.Status == lua.Gone && !o.Stray:
		return true, g.gone()
	}
	g.mu.Lock()
	g.yielded = max(int(o.Reply.Int(0)), 1) // where it is not known how many listen, somebody may
	g.longest = time.Duration(o.Reply.Int(2)) * time.Millisecond
	g.mu.Unlock()
	g.finish(errs.ErrReleased, o.Stray)
	if !watched {
		return true, g.reason()
	}
	if o.Reply.Status == lua.Denied {
		c.hub.Unlinger(b.wire.Channel()) // if it was our own subscription that was counted, the next time it is not
		if o.Reply.Text(1) != "" {
			return true, unannounced(b, o.Reply.Text(1))
		}
	}
	return true, nil
}

// kept goes on after the server has kept the lock for this client.
func (g *grant) kept(o remote.Outcome) (ended bool, err error) {
	t := g.tenure
	first, err := strconv.ParseUint(o.Reply.Text(0), 10, 64)
	last, err2 := strconv.ParseUint(o.Reply.Text(1), 10, 64)
	if err != nil || err2 != nil || !g.base.Dog.Confirm(&t.watch, o.Sent, g.lease, true) {
		return false, nil // released like any other
	}
	t.mu.Lock()
	t.reserveLocked(first, last)
	t.mu.Unlock()
	return g.mayHandOff() && g.hand(), nil // everybody may have left meanwhile
}

// accept is the end of the wait for one who was handed the lock.
func (g *grant) accept(err error) (*Hold, error) {
	if err == nil {
		err = g.base.Over(g.asked.wait)
	}
	g.mu.Lock()
	holds, ended := g.holds, g.ended
	g.mu.Unlock()
	switch {
	case errors.Is(ended, errs.ErrLost): // before it knew
		if err != nil {
			return nil, g.left(err)
		}
		return nil, errAgain
	case ended != nil:
		return nil, ended
	case err == nil:
		return holds[0], nil
	}
	// It left when it was its turn: to the next one, or back to the server. Counted first: if Close
	// has stopped the watchdog already, it releases the lock itself.
	_ = g.count()
	_ = holds[0].end(err)
	if !g.mayHandOff() || !g.tenure.fresh() || !g.hand() {
		g.base.Dog.Forget(&g.tenure.watch)
		g.entry.SetPlaced(true)
	}
	return nil, g.left(err)
}
