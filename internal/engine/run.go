package engine

import (
	"github.com/holdfast-go/holdfast/internal/errs"
)

// A run is a part of a queue at the server: the one who was handed the lock, and those of this
// client who stood directly behind. The server has named them, and has reserved a token for each.
// The lock is handed on among them without asking, and at the server it stays that of the first.
// The others keep their places there, so nothing of a run can be lost. The last one's release takes
// the places of those who were served. If that gets no answer, or the lock is lost, each of these
// places is given back like that of a waiter who leaves.
//
// Unlike a hand-off, a run needs no look at other clients: nobody is overtaken, because it is the
// server's order. So it may take as long as its holders do, while the lease is renewed.

// handOn ends the grant by handing the lock to the next of its run. It reports whether the grant
// has ended. If not, the lock is to be released, and the server grants it to the next in the queue.
func (g *grant) handOn() bool {
	t := g.tenure
	if t.run == nil || !g.mayHandOn() {
		return false
	}
	deadline := g.base.Dog.Deadline(&t.watch)
	if !t.run(func(who any) bool { return t.giveNext(g, who.(*grant)) }) {
		return false
	}
	g.mu.Lock()
	g.ended, g.until = errs.ErrReleased, deadline
	g.mu.Unlock()
	g.owner.drop(g, true)
	return true
}

// mayHandOn reports whether the lock may be handed on in a run. More than half of the lease has to
// be left, as for every hand-off, or of the claim, if the renewal that makes it a lease is under
// way. A token has to be left.
func (g *grant) mayHandOn() bool {
	t, want := g.tenure, &g.asked.want
	g.mu.Lock()
	lease, can := g.lease, want.handOff && want.renew && !g.entry.IsStray() && g.ended == nil && !g.longer
	g.mu.Unlock()
	if !can || g.base.Client.ctx.Err() != nil {
		return false
	}
	t.mu.Lock()
	can = t.nextLocked() <= t.last
	t.mu.Unlock()
	deadline := g.base.Dog.Deadline(&t.watch)
	if !deadline.After(t.claimed) {
		lease = min(lease, t.claim)
	}
	return can && g.ahead(deadline) > lease/2
}

// giveNext makes a waiter that has a place at the server the holder. A waiter of which a command
// may still arrive cannot have the lock this way: the command would take another place for it.
func (t *Tenure) giveNext(from, to *grant) bool {
	own := to.entry
	if own.IsStray() || !t.give(from, to) {
		return false
	}
	t.Entry.serve(own.Owner())
	to.owner.spend(own.Owner()) // its place stands until the run ends
	return true
}
