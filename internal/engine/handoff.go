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

// handOff ends the grant by handing the lock to a waiter of this client, where that is possible without the
// server. It reports whether the grant has ended, and else whether the server is to be asked, by pass.
func (g *grant) handOff() (ended, ask bool) {
	switch may := g.mayStay(); {
	case !may:
		return false, false
	case g.isAwaited() && g.tenure.fresh():
		return g.hand() || g.keep(), false
	case g.isAwaited():
		return false, true
	case g.keep():
		return true, false
	}
	return false, g.mayBeKept()
}

// mayHandOff reports whether the lock may be handed on, and somebody waits for it in this client.
func (g *grant) mayHandOff() bool { return g.mayStay() && g.isAwaited() }

// mayStay reports whether the lock may stay with this client. More than half of the lease has to be
// left: where renewals fail, the lock goes back to the server before its lease is nearly over. A
// lease that is longer at the server than the next holder asks for does not stay. Nor does a lock
// that TryLock got without the front place: the waiter in the front place is about to ask the
// server.
func (g *grant) mayStay() bool {
	b, want := g.base, &g.asked.want
	if !want.handOff && !g.tenure.isUnused() {
		return false
	}
	g.mu.Lock()
	lease, can := g.lease, want.moves() && !g.entry.IsStray() && g.ended == nil
	can = can && !g.longer && g.front
	g.mu.Unlock()
	return can && b.Client.ctx.Err() == nil &&
		g.ahead(b.Dog.Deadline(&g.tenure.watch)) > lease/2
}

// ahead is how far ahead a deadline lies. The clock is read once for that, for the end of the grant and for the
// beginning of the next one: each reading takes a hundredth of the time for which a lock is held that is handed on.
func (g *grant) ahead(deadline time.Time) time.Duration {
	g.looked = sinceStart()
	return deadline.Sub(start.Add(g.looked))
}

// hand makes the first waiter of this client the holder. In the hash the lock keeps the id of this
// grant. The owner who hands on does not use that id again: otherwise it would be taken for the
// holder.
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

// give makes a waiter of this client the holder. It is called with the queue's mutex held.
func (t *Tenure) give(from, to *grant) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder != holder(from) {
		return false
	}
	h := to.takeOver(t, from.lease, from.confirmed)
	if h != nil && h.notice != nil {
		h.notice.Since = from.looked
	}
	return h != nil
}

// pass asks the server to keep the lock for the waiters of this client, or to release the lock if
// other clients want it. It reports whether the grant has ended. err is then what Unlock returns.
func (g *grant) pass(ctx context.Context) (ended bool, err error) {
	b, t := g.base, g.tenure
	c := b.Client
	t.noteUse()
	k, _ := t.keeper.(*keeping)
	if k != nil {
		k.asking()
	}
	tokens := c.reserveSize()
	o := g.entry.Pass(ctx, g.lease, tokens)
	if o.Err == nil && o.Reply.Status == lua.Done {
		if !o.Stray {
			return g.kept(o)
		}
		// An earlier attempt may arrive late, find other clients and release the lock. So the lock is
		// not handed to a later holder under this id.
		g.entry.MarkStray()
		return false, nil
	}
	var lost error
	if !b.Dog.Forget(&t.watch) {
		lost = g.reason() // before it is ended here: the watchdog may not have come to that yet
	}
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
	if lost != nil {
		return true, lost
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
	if k, _ := t.keeper.(*keeping); k != nil {
		k.nobodyLocked(g.asked.want.keep)
	}
	t.mu.Unlock()
	return g.mayHandOff() && g.hand() || g.keep(), nil // everybody may have left meanwhile
}

// accept ends the wait of a grant that was handed the lock.
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
		g.endSibling()
		return holds[0], nil
	}
	// The caller left in the moment of its turn. The grant is counted first, so that Close waits for
	// what follows: Close may have stopped the watchdog already, and then does not release what is held here.
	_ = g.count()
	g.passOn(holds[0], err)
	return nil, g.left(err)
}

// passOn is for a lock that was granted when its caller had left. It goes to the next waiter, or back to
// the server when the grant ends, which is left to do if nobody has taken the lock.
func (g *grant) passOn(h *Hold, reason error) {
	_ = h.end(reason)
	if !g.mayHandOff() || !g.tenure.fresh() || !g.hand() {
		g.base.Dog.Forget(&g.tenure.watch)
		g.entry.SetPlaced(true)
	}
}

// bequeath is the rest of an acquisition whose caller left in the middle of an attempt, and told why. An attempt belongs
// to the front place, and not to the caller who has that: where somebody stands behind, it goes on, and what it is
// granted is handed on as by an unlock. (Otherwise callers who all wait for a few round trips stop each other. The one in
// front is the one who leaves next. It would always have less than a round trip left to ask in, and what it leaves
// would be in the way of the next one's attempt.)
func (g *grant) bequeath(reason error) {
	g.base.Client.tasks.Often(func() {
		timer := time.NewTimer(g.base.Client.overdue())
		defer timer.Stop()
		select {
		case n := <-g.late:
			if n.Refused {
				_ = g.refused(n) // the next one is told itself
			} else if h, _ := g.conclude(n); h != nil {
				g.tenure.disuse()
				g.passOn(h, reason)
			}
			g.finish(reason, false)
			g.endOp()
		case <-timer.C:
			g.disown(reason)
		}
	})
}

// disown gives back what comes of an attempt that nobody waits for any more.
func (g *grant) disown(reason error) {
	if g.entry != nil {
		g.entry.MarkStray()
	}
	g.finish(reason, false)
	g.endOp()
	if n := <-g.late; n.Granted {
		e := g.bid.Entry()
		e.MarkStray()
		e.Abandon(Nothing, g.asked.want.Stands())
	}
}
