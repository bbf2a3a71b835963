package holdfast

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/watchdog"
)

// elect is attempt for a lock that a majority of masters grants. It goes on trying while too few of them answer, until the retry
// budget is spent. contested says that others want the lock.
func (g *grant) elect(contested bool) (*Hold, time.Duration, error) {
	b, wait := g.base, g.asked.wait
	start := time.Now()
	for delay := firstBackoff; ; delay = min(2*delay, lastBackoff) {
		e := b.quorum.election(wait, &g.asked.want, g.tokens(), contested)
		cause := b.over(wait)
		if e.won && cause == nil {
			return g.elected(e)
		}
		e.ballot.withdraw(detach(wait))
		switch {
		case cause != nil:
			return nil, 0, b.left(because(cause, e.err))
		case e.err == nil:
			return nil, e.left, nil
		case !e.passing() || control.Resend.Off() || time.Since(start)+delay > b.client.budget():
			return nil, 0, b.gaveUp(wait, outcome{err: e.err})
		}
		if cause := b.pause(wait, spread(delay)); cause != nil {
			return nil, 0, b.left(because(cause, e.err))
		}
	}
}

// elected makes the grant live that has won an election.
func (g *grant) elected(e election) (*Hold, time.Duration, error) {
	g.id, g.server = e.ballot.id, e.ballot
	h, err := g.activate(e.sent, strconv.FormatUint(e.first, 10), strconv.FormatUint(e.last, 10), g.asked.want.lease)
	switch {
	case err != nil:
		g.markStray()
	case e.refused > 0: // a rival's votes, mostly, who has lost: it is not good to stand on a bare majority for long
		g.base.dog.Hasten(&g.tenure.watch, joinAfter)
	}
	return h, 0, err
}

// spread shortens a delay at random, so that those who failed together do not come back together.
func spread(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1) //nolint:gosec // spreads load, guards nothing
}

// pause returns why nobody should go on, nil when the time is over.
func (b *Base) pause(wait context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wait.Done():
	case <-b.client.ctx.Done():
	}
	return b.over(wait)
}

// election is one attempt to get the votes of a majority, and what came of it.
type election struct {
	*ballot
	sent        time.Time // what is trusted is counted from here
	won         bool
	first, last uint64        // the tokens that are its own
	left        time.Duration // if others hold the lock: when to try again if nobody tells
	err         error         // too few answered
	refused     int           // masters
}

// election holds one, for so many tokens. Where others want the lock, one master is asked first, and the rest only if that one grants it.
func (q *quorum) election(ctx context.Context, cfg *config, tokens int, contested bool) election {
	e := election{ballot: q.newBallot(cfg), sent: time.Now(), first: q.propose()}
	e.last = e.first + uint64(tokens) - 1 //nolint:gosec // at least 1
	what, p := e.stand(1, cfg.lease, e.last), q.newTally()
	rest := q.all
	if lead, ok := q.lead(e.patience); ok && contested {
		e.ask(ctx, what, []int{lead}, p, func() bool { return false })
		if p.refused() > 0 {
			e.left = spread(lookAgain(time.Duration(p.answers[lead].reply.Int(0)) * time.Millisecond))
			return e
		}
		rest = without(rest, lead)
	}
	e.ask(ctx, what, rest, p, func() bool {
		return p.votes() >= q.need && !e.young(p) || p.refused() > len(q.voters)-q.need
	})
	e.unanimous(p)
	e.refused = p.refused()
	switch {
	case q.twins() != nil:
		e.err = q.twins()
	case p.votes() >= q.need && e.young(p) && e.contested(p):
		e.left = e.defeat(p)
	case p.votes() >= q.need:
		e.agree(ctx, cfg, p)
	case p.refused() > 0 && p.refused()+p.count((*answer).holds) >= q.need:
		e.left = e.defeat(p)
	default:
		e.err = &quorumError{q, p}
	}
	return e
}

// agree settles the tokens of an election that is won: the greatest that a master replied, once a majority knows it. Mostly it does: then
// all have replied the same. If that is what was proposed, those before it are the owner's too, as far as no master knew them.
func (e *election) agree(ctx context.Context, cfg *config, p *tally) {
	proposed, same := e.last, 0
	e.last = 0
	for i := range p.answers {
		a := &p.answers[i]
		if !a.counts {
			continue
		}
		token, err := strconv.ParseUint(a.reply.Text(0), 10, 64)
		known, err2 := strconv.ParseUint(a.reply.Text(2), 10, 64)
		if err != nil || err2 != nil {
			e.err = fmt.Errorf("a master granted the lock with tokens that are no numbers: %q, %q", a.reply.Text(0), a.reply.Text(2))
			return
		}
		e.first = max(e.first, known+1)
		if token > e.last {
			e.last, same = token, 0
		}
		if token == e.last {
			same++
		}
	}
	if e.last != proposed {
		e.first = e.last
	}
	e.q.saw(e.last)
	e.won = same >= e.q.need || control.Tell.Off() || e.tell(ctx, cfg.lease, e.last)
	if e.won && !time.Now().Before(e.sent.Add(watchdog.Trust(cfg.lease))) {
		e.won, e.err = false, errSlow
	}
}

var errSlow = errors.New("the masters took longer to grant the lock than it can be trusted; use a longer lease")

// passing tells whether another election may end better than one that failed.
func (e *election) passing() bool {
	var failure *quorumError
	return errors.Is(e.err, errSlow) || errors.As(e.err, &failure) && !failure.final()
}

// tell makes a token known to a majority.
func (e *election) tell(ctx context.Context, lease time.Duration, token uint64) bool {
	p, text := e.q.newTally(), strconv.FormatUint(token, 10)
	agreed := func() int { return p.count(func(a *answer) bool { return a.counts && a.reply.Text(0) == text }) }
	e.ask(ctx, e.stand(1, lease, token), e.q.all, p, func() bool { return agreed() >= e.q.need })
	if agreed() < e.q.need {
		e.err = &quorumError{e.q, p}
		return false
	}
	return true
}

// young tells whether there are votes of masters that were started less than a lease ago and are believed only because the others
// are as young. Then it matters what all of them say.
func (e *election) young(p *tally) bool {
	if e.trusts || control.Restarts.Off() {
		return false
	}
	free := e.q.free.Load()
	for i := range p.answers {
		if a := &p.answers[i]; a.counts && time.Since(a.run.Since) < e.horizon() && (free == nil || (*free)[i] != a.run.ID) {
			return true
		}
	}
	return false
}

// unanimous notes that all masters granted the lock together, if they did.
func (e *election) unanimous(p *tally) {
	if e.q.free.Load() != nil && !e.young(p) || p.votes() < len(p.answers) {
		return
	}
	runs := make([]string, len(p.answers))
	for i := range p.answers {
		if p.answers[i].run == nil {
			return // trusted, and not known
		}
		runs[i] = p.answers[i].run.ID
	}
	e.q.free.Store(&runs)
}

// contested tells whether another owner would have a majority with the vote of one more master, which has forgotten it. A young one that
// knows the token of that owner has not.
func (e *election) contested(p *tally) bool {
	answered := p.count(func(a *answer) bool { return a.err == nil })
	for _, rival := range p.rivals() {
		forgot := p.count(func(a *answer) bool { return a.counts && a.reply.Text(2) != rival.token })
		if forgot > 0 && rival.masters+1+len(p.answers)-answered >= e.q.need {
			return true
		}
	}
	return false
}

// Delays until a lock is asked for again that was refused, if nobody tells that it is free.
const (
	maxLook = time.Second
	// splitDelay is for votes that were split: nobody has the lock. It has to be long beside the time that an election takes.
	splitDelay = 20 * time.Millisecond
	// joinAfter is when masters are asked again that refused a lock which others granted.
	joinAfter = 100 * time.Millisecond
)

// lookAgain is when to look after a lock of whose lease so much is left at one master.
func lookAgain(left time.Duration) time.Duration {
	if left < 0 {
		return maxLook
	}
	return min(2*left+2*time.Millisecond, maxLook) // spread shortens it to half of that at most
}

// defeat is when to try again after an election that others have won, or nobody.
func (e *election) defeat(p *tally) time.Duration {
	left := maxLook
	for i := range p.answers {
		if a := &p.answers[i]; a.refuses() {
			left = min(left, lookAgain(time.Duration(a.reply.Int(0))*time.Millisecond))
		}
	}
	if !slices.ContainsFunc(p.rivals(), func(r rival) bool { return r.masters >= e.q.need }) {
		return spread(min(splitDelay+4*time.Since(e.sent), maxLook))
	}
	return spread(left)
}
