package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// errBusy is why an unlock could not be sent at once.
var errBusy = errors.New("another operation of the same owner got no answer from Redis within Options.RetryBudget")

// errStays is what follows if this user may not release a lock.
var errStays = errors.New("the lock stays taken until its lease ends")

// unlock ends a hold and takes the hold out of the grant. The last hold releases the lock. Close
// waits for that release. Close does not release such a lock itself, and the go-redis client may be
// closed right after Close.
func (g *grant) unlock(ctx context.Context, budget remote.SharedBudget, h *Hold) (err error) {
	told, earlier := h.endUntold(errs.ErrReleased)
	if earlier != nil {
		return earlier
	}
	var at time.Duration
	if told {
		defer func() { h.tellEnd(at, err) }() // also if a hook of go-redis ends the goroutine
	}
	g.base.Client.tasks.Begin()
	defer g.base.Client.tasks.End()
	if !g.turn.tryTake() { // another operation of the same owner is under way
		budget = g.unlockBudget(budget)
		limit, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), g.base.Client.opts.RetryBudget, errBusy)
		defer cancel()
		if err := g.turn.take(limit); err != nil {
			g.base.Client.tasks.Go(func() { g.unlockLater(h) })
			return errs.Outage(errs.Both(errs.ErrUncertain, err))
		}
	}
	at, err = g.unlockInTurn(ctx, budget, h)
	return err
}

// unlockBudget returns the one budget of all that an unlock does: the wait for the turn, the question who else wants
// the lock, the release. An unlock that needs no server needs no budget, so the budget begins late.
func (g *grant) unlockBudget(b remote.SharedBudget) remote.SharedBudget {
	return b.Or(g.base.Client.session.Budget())
}

// unlockLater does the unlock of a caller that could not wait for the operation before it.
func (g *grant) unlockLater(h *Hold) {
	_ = g.turn.take(context.Background()) // passed on by that operation, which is bounded
	_, _ = g.unlockInTurn(context.Background(), remote.SharedBudget{}, h)
}

func (g *grant) unlockInTurn(ctx context.Context, budget remote.SharedBudget, h *Hold) (at time.Duration, err error) {
	g.mu.Lock()
	if g.ended != nil {
		g.mu.Unlock()
		g.turn.pass()
		return 0, g.ended
	}
	g.holds = slices.DeleteFunc(g.holds, func(other *Hold) bool { return other == h })
	count, lease := len(g.holds), g.lease
	plain := g.renew && !slices.ContainsFunc(g.holds, func(h *Hold) bool { return h.renewed })
	g.renew = g.renew && !plain
	g.mu.Unlock()
	if plain && count > 0 {
		g.base.Dog.StopRenewing(&g.serverLease.watch) // what is left is a plain lease, as it was before
	}
	if count == 0 {
		defer g.turn.pass()
		err = g.unlockLast(ctx, budget)
		return g.looked, err
	}
	at = sinceStart()
	return at, g.unlockInner(ctx, g.unlockBudget(budget), count, lease)
}

// unlockInner sets the count of those that are left, and passes the turn on.
func (g *grant) unlockInner(ctx context.Context, budget remote.SharedBudget, count int, lease time.Duration) error {
	o := g.entry.Set(remote.Detach(ctx), budget, count, lease, remote.Replicas{}, nil)
	switch {
	case o.Err != nil && o.MayArriveLate:
		g.base.Client.tasks.Go(g.resync)
		return g.base.Uncertain(o)
	case o.Err != nil:
		g.turn.pass()
		return g.base.Uncertain(o)
	}
	defer g.turn.pass()
	if o.Reply.Status == lua.Gone {
		return g.gone()
	}
	return nil
}

// unlockLast ends the grant. The lock goes the first of six ways that is open:
//
//  1. to the next of its run: that is the order of the server's queue, so nobody is overtaken (handOffInRun);
//  2. handed off to the first who waits in this client, while the client's turn lasts (handOff);
//  3. kept idle for the next caller of this client, if it was taken with Keep (keep);
//  4. passed: the server keeps it for this client, or releases it because other clients want it (keepOrRelease);
//  5. left taken, because it was taken with HoldAtLeast;
//  6. released.
//
// The first three ask no server. The answer to the fourth leads to the second, the third or the last.
func (g *grant) unlockLast(ctx context.Context, budget remote.SharedBudget) error {
	ended, ask := g.next()
	if ended {
		return nil
	}
	if g.looked == 0 {
		g.looked = sinceStart()
	}
	budget = g.unlockBudget(budget)
	if ask {
		if ended, err := g.keepOrRelease(ctx, budget); ended {
			return err
		}
	}
	// Renewal ends before the release is sent, so that no renewal follows it.
	if !g.base.Dog.Forget(&g.serverLease.watch) {
		return g.reason()
	}
	g.serverLease.noteUse()
	return g.release(ctx, budget)
}

// next takes one of the ways that ask no server. It reports whether the grant has ended, and else whether the server
// is to be asked, by keepOrRelease.
func (g *grant) next() (ended, ask bool) {
	if g.handOffInRun() {
		return true, false
	}
	if !g.mayStay() {
		return false, false
	}
	awaited := g.isAwaited()
	turn := !awaited || g.serverLease.fresh() // else others may have waited for too long
	if awaited && turn && g.handOff() || turn && g.keep() {
		return true, false
	}
	return false, !turn || !awaited && g.mayBeKept()
}

// release gives the lock back, or leaves it taken for the rest of its time. Then it ends by itself: what got no
// answer, or may come later and take the lock anew, is given back in the background when its time
// is over. A command without an answer can make the end earlier than without it, never before its
// time. What was sent before it and comes later, such as a renewal, does not find this owner any
// more: leave.lua gives the field another name, see [remote.OwnerIn].
func (g *grant) release(ctx context.Context, budget remote.SharedBudget) error {
	rest := Nothing
	if g.rest() > 0 {
		rest = g.rest
	}
	o := g.entry.Release(ctx, budget, rest)
	// Without an answer, or refused, it goes on in the background: the entry knows. If the lock stays taken, the owner id
	// is dropped, because the hash may have it still, and it must not be taken for a grant.
	g.finish(errs.ErrReleased, false)
	switch {
	case lua.IsDenied(o.Err):
		return errs.Both(errStays, g.base.Uncertain(o))
	case o.Err != nil:
		return g.base.Uncertain(o)
	case o.Reply.Status == lua.Gone && !o.MayArriveLate:
		return errs.Both(errs.ErrLost, g.notHeld())
	case o.Reply.Unannounced() != "":
		return unannounced(g.base, o.Reply.Unannounced())
	}
	return nil
}
