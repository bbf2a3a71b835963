package engine

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/remote"
)

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

// isAwaited reports whether somebody waits for the lock in this client.
func (g *grant) isAwaited() bool { return g.base.Client.queue.Waiting(g.base.Key) > 0 }

// others is how many tokens to ask for, more than one if the lock may be handed on, and whether somebody stands behind
// who may have what this attempt is granted. (Nobody may have it where the same owner may be granted another side: to
// the server, both are one.)
func (g *grant) others() (tokens int, behind bool) {
	r := g.asked
	if !r.want.renew || !g.isAwaited() {
		return 1, false
	}
	if tokens = 1; r.want.handOff {
		tokens = g.base.Client.reserveSize()
	}
	return tokens, g.front && !r.once && r.whole == nil && r.want.moves() && !g.base.traits.Shared
}

// attempt asks for the lock, and again while the answers come too late. Without a hold and an error
// it is another's; the time returned is when to ask again if nobody tells.
func (g *grant) attempt() (h *Hold, again time.Duration, err error) {
	for {
		if h, again, err = g.attemptInTime(); !g.tooSlow(err) {
			return h, again, err
		}
		if cause := g.base.Over(g.asked.wait); cause != nil {
			return nil, 0, g.left(cause)
		}
	}
}

// tooSlow reports whether to ask again because a grant came too late: the server stood still for a
// moment, or the lease is shorter than the way to it. In that case it never comes in time, so the
// retry budget bounds this. The server has a grant then that is asked for once more, and lengthened.
func (g *grant) tooSlow(err error) bool {
	if !errors.Is(err, errSlow) || g.asked.once {
		return false
	}
	g.note.failed.Store(&errSlow)
	now := sinceStart()
	if g.slow == 0 {
		g.slow = now
	}
	return now-g.slow < g.base.Client.session.Budget()
}

// attemptInTime asks for the lock once.
func (g *grant) attemptInTime() (*Hold, time.Duration, error) {
	r, owed := g.asked, &g.courtesy
	beside, err := g.owner.beside(g.base)
	if err != nil {
		return nil, 0, err
	}
	start, vain := g.headStart(), owed.vain
	owed.vain, owed.asked = 0, max(owed.asked, start)
	tokens, behind := g.others()
	n := g.bid.Ask(Attempt{
		Wait: r.wait, Want: &r.want, Once: r.once, Tokens: tokens, Lasts: behind, Failed: &g.note.failed,
		beside: beside, headStart: start, ends: max(owed.asked, vain),
	})
	if n.Refused && g.refusedByItself(n.By.Owner) {
		return nil, 0, g.base.selfish()
	}
	if n.Refused {
		return nil, n.Again, g.refused(n)
	}
	h, err := g.conclude(n)
	return h, 0, err
}

// refused notes what a refusal says. It returns an error if waiting would not end.
func (g *grant) refused(n Result) error {
	if n.Unknown != nil {
		g.asked.contended = true
		g.note.failed.Store(&n.Unknown)
		return nil
	}
	g.denied(n.Sent, n.By)
	return n.By.Mistake(g.base.Key.Name)
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
		g.late = n.Late
		return nil, g.left(n.Left)
	case !n.Granted:
		return nil, g.acquireFailed(r.wait, remote.Outcome{Err: n.Err, Stray: n.stray, Unsent: n.unsent})
	}
	if e := g.bid.Entry(); e != g.entry {
		g.become(e.Owner(), e)
	}
	r.how = notify.Asked
	h, err := g.activate(n.Sent, n.Token, n.Last, r.want.Lease)
	if err != nil {
		g.entry.MarkStray()
		return nil, err
	}
	g.bid.Live(&g.tenure.watch)
	g.prepareKeeping()
	return h, nil
}

// headStart is for how long this client has to be let go first, if that is longer than everybody
// is. It hears of a release after half a round trip, and needs another half; half as much again is
// for trips that take longer than usual.
func (g *grant) headStart() time.Duration {
	if g.asked.once {
		return 0 // it does not come again
	}
	if need := g.base.Client.way.usual() * 3 / 2; need > giveWayFor {
		return min(need, maxLetGo)
	}
	return 0
}
