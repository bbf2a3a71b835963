package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// prepare is for a grant that is to be asked for. It fails if the wait is over.
func (a *Acquisition) prepare() error {
	g := a.grant
	if cause := a.count(); cause != nil {
		return cause
	}
	a.acquirer = a.base.backend.NewAcquirer(g.id)
	g.become(g.id, a.acquirer.Entry())
	return nil
}

// count makes Close wait for this acquisition from now on: what the server grants in that moment is
// given back before Close returns. It fails if the wait is over. Those in the local queue are not
// counted; they have nothing to give back.
func (a *Acquisition) count() error {
	if !a.counted {
		a.counted = true
		a.base.Client.tasks.Begin()
	}
	return a.base.Over(a.wait)
}

func (a *Acquisition) uncount() {
	if a.counted {
		a.base.Client.tasks.End()
	}
}

// others is how many tokens to ask for, more than one if the lock may be handed on, and whether somebody stands behind
// who may have what this attempt is granted. (Nobody may have it where the same owner may be granted another side: to
// the server, both are one.)
func (a *Acquisition) others() (tokens int, behind bool) {
	g := a.grant
	if !a.want.renew || !g.isAwaited() {
		return 1, false
	}
	if tokens = 1; a.want.handOff {
		tokens = a.base.Client.reserveSize()
	}
	return tokens, g.front && !a.once && a.early == nil && a.want.moves() && !a.base.traits.Shared
}

// attempt asks for the lock, and again while the answers come too late. Without a hold and an error
// it is another's; the time returned is when to ask again if nobody tells.
func (a *Acquisition) attempt() (h *Hold, again time.Duration, err error) {
	for {
		if h, again, err = a.attemptInTime(); !a.tooSlow(err) {
			if h == nil && err == nil && a.once { // there will be no other attempt
				err = a.waitError(nil)
			}
			return h, again, err
		}
		if cause := a.base.Over(a.wait); cause != nil {
			return nil, 0, a.waitError(cause)
		}
	}
}

// tooSlow reports whether to ask again because a grant came too late: the server stood still for a
// moment, or the lease is shorter than the way to it. In that case it never comes in time, so the
// retry budget bounds this. The server has a grant then that is asked for once more, and lengthened.
func (a *Acquisition) tooSlow(err error) bool {
	if !errors.Is(err, errSlow) || a.once {
		return false
	}
	a.grant.note.failed.Store(&errSlow)
	now := sinceStart()
	if a.slow == 0 {
		a.slow = now
	}
	return now-a.slow < a.base.Client.session.Budget()
}

// attemptInTime asks for the lock once.
func (a *Acquisition) attemptInTime() (*Hold, time.Duration, error) {
	g := a.grant
	turns := &a.turns
	beside, err := g.owner.beside(a.base)
	if err != nil {
		return nil, 0, err
	}
	start, unused := a.headStart(), turns.unused
	turns.unused, turns.granted = 0, max(turns.granted, start)
	tokens, behind := a.others()
	n := a.acquirer.TryAcquire(Attempt{
		Wait: a.wait, Want: a.want, Once: a.once, Tokens: tokens, Lasts: behind, Failed: &g.note.failed,
		beside: beside, headStart: start, ends: max(turns.granted, unused),
	})
	if n.Refused && a.refusedByItself(n.By.Owner) {
		return nil, 0, a.base.upgradeError()
	}
	if n.Refused {
		return nil, n.Again, a.refused(n)
	}
	h, err := a.conclude(n)
	return h, 0, err
}

// refused notes what a refusal says. It returns an error if waiting would not end.
func (a *Acquisition) refused(n Result) error {
	if n.Unknown != nil {
		a.contended = true
		a.grant.note.failed.Store(&n.Unknown)
		return nil
	}
	a.noteRefusal(n.Sent, n.By)
	return n.By.Mistake(a.base.Key.Name)
}

// conclude makes the grant live, or says why it will not be.
func (a *Acquisition) conclude(n Result) (*Hold, error) {
	g := a.grant
	switch {
	case n.Left != nil:
		a.pending = n.Late
		return nil, a.waitError(n.Left)
	case !n.Granted:
		return nil, a.acquireFailed(a.wait, remote.Outcome{Err: n.Err, MayArriveLate: n.mayArriveLate, Unsent: n.unsent})
	}
	if e := a.acquirer.Entry(); e != g.entry {
		g.become(e.Owner(), e)
	}
	a.how = event.Asked
	h, err := g.activate(n.Sent, n.Token, n.Last, a.want.Lease)
	if err != nil {
		g.entry.NoteLateCommand()
		return nil, err
	}
	a.acquirer.Live(&g.serverLease.watch)
	if a.want.keep > 0 {
		g.prepareKeeping()
	}
	return h, nil
}

// headStart is for how long this client has to be let go first, if that is longer than everybody
// is. It hears of a release after half a round trip, and needs another half; half as much again is
// for trips that take longer than usual.
func (a *Acquisition) headStart() time.Duration {
	if a.once {
		return 0 // it does not come again
	}
	if need := a.base.Client.way.usual() * 3 / 2; need > yieldFor {
		return min(need, longestYield)
	}
	return 0
}

// errUnconfirmed is why a lock was given back that was granted.
var errUnconfirmed = errors.New("the lock was granted, but its replicas were not known to have it in time")

// confirm makes a new grant count: it is written once more, and that has to reach the replicas.
// Replication is a stream, so who has the later write has the grant, whichever connection or client
// that came by; and if there was a failover in between, the write finds the grant or does not.
// Meanwhile the grant is live already, and renewed.
//
// (Rejected: to wait right behind the script that asks for the lock, which would spare a round
// trip. Who is denied would wait too, for the whole timeout where replicas are missing; an attempt
// that is repeated may find nothing left to write, and then nothing is waited for; and a lock that
// was handed over by message is not asked for at all.)
func (a *Acquisition) confirm(h *Hold) (*Hold, error) {
	g := a.grant
	b, wait, want := a.base, a.wait, a.want
	if want.Replicas.N == 0 {
		return h, nil
	}
	o, ok := b.Client.session.CallNoting(wait, func(ctx context.Context, failed *atomic.Pointer[error]) remote.Outcome {
		return g.entry.Set(ctx, remote.SharedBudget{}, 1, want.Lease, want.Replicas, failed)
	}, &g.note.failed, func(remote.Outcome) {})
	if !ok { // a straggler writes nothing into a lock that was given back, but may into a later grant to the same id
		g.entry.NoteLateCommand()
	}
	var err error
	switch cause := b.Over(wait); {
	case errors.Is(cause, errs.ErrClosed):
		err = cause
	case cause != nil:
		err = errs.Outage(errs.WithCause(cause, errUnconfirmed))
	case o.Err != nil:
		o.MayArriveLate = false // nothing stays uncertain: it is given back
		err = b.Uncertain(o)
	case o.Reply.Status == lua.Gone:
		err = errs.Both(errs.ErrNotReplicated, watchdog.ErrGone) // a failover came first
	case !b.Dog.Confirm(&g.serverLease.watch, o.Sent, want.Lease, want.renew):
		err = g.reason()
	default:
		g.mu.Lock()
		g.confirmed = want.Replicas
		g.mu.Unlock()
		return h, nil
	}
	b.Dog.Forget(&g.serverLease.watch)
	if ok { // else its caller has left, and does not wait for this either
		// Not handed on: nobody in this client could know how many replicas have it.
		g.entry.Release(wait, remote.SharedBudget{}, Nothing)
	}
	return nil, err
}

// takenOver ends the wait of a grant that was handed the lock.
func (a *Acquisition) takenOver(err error) (*Hold, error) {
	g := a.grant
	if err == nil {
		err = a.base.Over(a.wait)
	}
	g.mu.Lock()
	holds, ended := g.holds, g.ended
	g.mu.Unlock()
	switch {
	case errors.Is(ended, errs.ErrLost): // before it knew
		if err != nil {
			return nil, a.waitError(err)
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
	_ = a.count()
	a.passOn(holds[0], err)
	return nil, a.waitError(err)
}

// passOn is for a lock that was granted when its caller had left. It goes to the next waiter, or back to
// the server when the grant ends, which is left to do if nobody has taken the lock.
func (a *Acquisition) passOn(h *Hold, reason error) {
	g := a.grant
	_ = h.end(reason)
	if !g.mayHandOff() || !g.serverLease.fresh() || !g.handOff() {
		a.base.Dog.Forget(&g.serverLease.watch)
		g.entry.SetInQueue(true)
	}
}

// bequeath is the rest of an acquisition whose caller left in the middle of an attempt, and told why. An attempt belongs
// to the front place, and not to the caller who has that: where somebody stands behind, it goes on, and what it is
// granted is handed on as by an unlock. (Otherwise callers who all wait for a few round trips stop each other. The one in
// front is the one who leaves next. It would always have less than a round trip left to ask in, and what it leaves
// would be in the way of the next one's attempt.)
func (a *Acquisition) bequeath(reason error) {
	g := a.grant
	a.base.Client.tasks.Often(func() {
		timer := time.NewTimer(a.base.Client.overdue())
		defer timer.Stop()
		select {
		case n := <-a.pending:
			if n.Refused {
				_ = a.refused(n) // the next one is told itself
			} else if h, _ := a.conclude(n); h != nil {
				g.serverLease.disuse()
				a.passOn(h, reason)
			}
			g.finish(reason, false)
			g.turn.pass()
		case <-timer.C:
			a.disown(reason)
		}
	})
}

// disown gives back what comes of an attempt that nobody waits for any more.
func (a *Acquisition) disown(reason error) {
	g := a.grant
	if g.entry != nil {
		g.entry.NoteLateCommand()
	}
	g.finish(reason, false)
	g.turn.pass()
	if n := <-a.pending; n.Granted {
		e := a.acquirer.Entry()
		e.NoteLateCommand()
		e.UndoIfNeeded(Nothing, a.want.TTL())
	}
}
