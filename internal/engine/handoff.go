package engine

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// mayHandOff reports whether the lock may be handed on, and somebody waits for it in this client.
func (g *grant) mayHandOff() bool { return g.mayStay() && g.isAwaited() }

// mayStay reports whether the lock may stay with this client. More than half of the lease has to be
// left: where renewals fail, the lock goes back to the server before its lease is nearly over. A
// lease that is longer at the server than the next holder asks for does not stay. Nor does a lock
// that TryLock got without the front place: the waiter in the front place is about to ask the
// server.
func (g *grant) mayStay() bool {
	b, want := g.base, g.asked.want
	if !want.handOff && !g.serverLease.isUnused() {
		return false
	}
	g.mu.Lock()
	lease, can := g.lease, want.moves() && !g.entry.MayArriveLate() && g.ended == nil
	can = can && !g.longer && g.front
	g.mu.Unlock()
	return can && b.Client.ctx.Err() == nil &&
		g.ahead(b.Dog.Deadline(&g.serverLease.watch)) > lease/2
}

// ahead is how far ahead a deadline lies. The clock is read once for that, for the end of the grant and for the
// beginning of the next one: each reading takes a hundredth of the time for which a lock is held that is handed on.
func (g *grant) ahead(deadline time.Time) time.Duration {
	g.looked = sinceStart()
	return deadline.Sub(start.Add(g.looked))
}

// handOff makes the first waiter of this client the holder. In the hash the lock keeps the id of this
// grant. The owner who hands on does not use that id again: otherwise it would be taken for the
// holder.
func (g *grant) handOff() bool {
	b, t := g.base, g.serverLease
	deadline := b.Dog.Deadline(&t.watch)
	if !b.Client.queue.HandOff(&b.Key, func(who any) bool { return t.handTo(g, who.(*grant)) }) {
		return false
	}
	g.mu.Lock()
	g.ended, g.until, g.front = errs.ErrReleased, deadline.Sub(start), false
	g.mu.Unlock()
	g.owner.drop(g, true)
	return true
}

// handTo makes a waiter of this client the holder. It is called with the queue's mutex held.
func (t *ServerLease) handTo(from, to *grant) bool {
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

// keepOrRelease asks the server to keep the lock for the waiters of this client, or to release the lock if
// other clients want it. It reports whether the grant has ended. err is then what Unlock returns.
func (g *grant) keepOrRelease(ctx context.Context, budget remote.SharedBudget) (ended bool, err error) {
	b, t := g.base, g.serverLease
	c := b.Client
	t.noteUse()
	k, _ := t.keeper.(*idleLease)
	if k != nil {
		k.asking()
	}
	tokens := c.reserveSize()
	o := g.entry.KeepOrRelease(ctx, budget, g.lease, tokens)
	if o.Err == nil && o.Reply.Status == lua.Done {
		if !o.MayArriveLate {
			return g.kept(o)
		}
		// An earlier attempt may arrive late, find other clients and release the lock. So the lock is
		// not handed to a later holder under this id.
		g.entry.NoteLateCommand()
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
	case o.Reply.Status == lua.Gone && !o.MayArriveLate:
		return true, g.gone()
	}
	r := o.Reply.Pass()
	g.mu.Lock()
	g.yielded = max(int(r.Listeners), 1) // where it is not known how many listen, somebody may
	g.longest = time.Duration(r.HeadStart) * time.Millisecond
	g.mu.Unlock()
	g.finish(errs.ErrReleased, o.MayArriveLate)
	if lost != nil {
		return true, lost
	}
	if o.Reply.Status == lua.Denied {
		c.hub.Unlinger(b.wire.Channel()) // if it was our own subscription that was counted, the next time it is not
		if r.Unannounced != "" {
			return true, unannounced(b, r.Unannounced)
		}
	}
	return true, nil
}

// kept goes on after the server has kept the lock for this client.
func (g *grant) kept(o remote.Outcome) (ended bool, err error) {
	t := g.serverLease
	r := o.Reply.Pass()
	first, err := strconv.ParseUint(r.First, 10, 64)
	last, err2 := strconv.ParseUint(r.Last, 10, 64)
	if err != nil || err2 != nil || !g.base.Dog.Confirm(&t.watch, o.Sent, g.lease, true) {
		return false, nil // released like any other
	}
	t.mu.Lock()
	t.reserveLocked(first, last)
	if k, _ := t.keeper.(*idleLease); k != nil {
		k.nobodyLocked(g.asked.want.keep)
	}
	t.mu.Unlock()
	return g.mayHandOff() && g.handOff() || g.keep(), nil // everybody may have left meanwhile
}

// A run is a part of a queue at the server: the one who was handed the lock, and those of this
// client who stood directly behind. The server has named them, and has reserved a token for each.
// The lock is handed on among them without asking, and at the server it stays that of the first.
// The others keep their places there, so nothing of a run can be lost. The last one's release takes
// the places of those who were served. If that gets no answer, or the lock is lost, each of these
// places is given back like that of a waiter who leaves.
//
// Unlike a hand-off, a run needs no look at other clients: nobody is overtaken, because it is the
// server's order. So it may take as long as its holders do, while the lease is renewed.

// handOffInRun ends the grant by handing the lock to the next of its run. It reports whether the grant
// has ended. If not, the lock is to be released, and the server grants it to the next in the queue.
func (g *grant) handOffInRun() bool {
	t := g.serverLease
	if t.run == nil || !g.mayHandOffInRun() {
		return false
	}
	deadline := g.base.Dog.Deadline(&t.watch)
	if !t.run.next(func(who any) bool { return t.handToNext(g, who.(*grant)) }) {
		return false
	}
	g.mu.Lock()
	g.ended, g.until = errs.ErrReleased, deadline.Sub(start)
	g.mu.Unlock()
	g.owner.drop(g, true)
	return true
}

// mayHandOffInRun reports whether the lock may be handed on in a run. More than half of the lease has to
// be left, as for every hand-off, or of the claim, if the renewal that makes it a lease is under
// way. A token has to be left.
func (g *grant) mayHandOffInRun() bool {
	t, want := g.serverLease, g.asked.want
	g.mu.Lock()
	lease, can := g.lease, want.handOff && want.renew && !g.entry.MayArriveLate() && g.ended == nil && !g.longer
	g.mu.Unlock()
	if !can || g.base.Client.ctx.Err() != nil {
		return false
	}
	t.mu.Lock()
	can = t.nextLocked() <= t.last
	t.mu.Unlock()
	deadline := g.base.Dog.Deadline(&t.watch)
	if !deadline.After(t.run.claimed) {
		lease = min(lease, t.run.claim)
	}
	return can && g.ahead(deadline) > lease/2
}

// handToNext makes a waiter that has a place at the server the holder. A waiter of which a command
// may still arrive cannot have the lock this way: the command would take another place for it.
func (t *ServerLease) handToNext(from, to *grant) bool {
	own := to.entry
	if own.MayArriveLate() || !t.handTo(from, to) {
		return false
	}
	t.Entry.serve(own.Owner())
	to.owner.spend(own.Owner()) // its place stands until the run ends
	return true
}
