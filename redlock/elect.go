package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// quorumAcquirer acquires a lock that several masters grant: one election after another. Each election
// makes a ballot. The ballot of the election that is won becomes the owner's entry.
type quorumAcquirer struct {
	q       *quorum
	contest contest
	won     election // set if an election was won
}

var _ engine.Acquirer = (*quorumAcquirer)(nil)

// Entry is [engine.Acquirer.Entry].
func (m *quorumAcquirer) Entry() engine.Entry {
	if m.won.ballot == nil {
		return nil
	}
	return m.won.ballot
}

// Live is [engine.Acquirer.Live].
func (m *quorumAcquirer) Live(watch *watchdog.Lease) { m.won.live(watch) }

// TryAcquire is [engine.Acquirer.TryAcquire].
func (m *quorumAcquirer) TryAcquire(a engine.Attempt) engine.Result {
	if !a.Lasts {
		return m.ask(a)
	}
	late, b := make(chan engine.Result, 1), m.q.base
	b.Client.Tasks().Often(func() { late <- m.ask(a) })
	select {
	case n := <-late:
		return n
	case <-a.Wait.Done():
		return engine.Result{Left: b.Over(a.Wait), Late: late}
	}
}

// ask tries again while too few masters agree, until the retry budget is spent or the wait ends; an
// election that lasts ends by itself. For TryLock it tries only once more, because connections may
// have gone stale, and for two timeouts of a master in all.
func (m *quorumAcquirer) ask(a engine.Attempt) engine.Result {
	q, wait, c := m.q, a.Wait, &m.contest
	b := q.base
	if late := m.won.ballot; late != nil { // it was won too late
		m.won = election{}
		late.withdraw(remote.Detach(wait))
	}
	c.on = c.on || q.rivals().lately(b.Key)
	if d := time.Until(c.notBefore); d > 0 {
		if cause := b.Pause(wait, d); cause != nil {
			return engine.Result{Left: cause}
		}
	}
	start, limit, asking := time.Now(), b.Client.Session().Budget(), wait
	switch {
	case a.Lasts:
		asking = remote.Detach(wait)
	case a.Once:
		var cancel context.CancelFunc
		limit = patienceOf(a.Want)
		asking, cancel = context.WithTimeout(wait, 2*limit)
		defer cancel()
	}
	for delay := remote.FirstBackoff; ; delay = min(2*delay, remote.LastBackoff) {
		e := q.election(asking, a.Want, a.Tokens, c, a.Once)
		cause := b.Over(wait)
		if e.won && (cause == nil || a.Lasts) {
			m.won = e
			first, last := strconv.FormatUint(e.first, 10), strconv.FormatUint(e.last, 10)
			return engine.Result{Granted: true, Sent: e.sent, Token: first, Last: last}
		}
		if e.ballot.withdraw(remote.Detach(wait)) > 0 { // the rivals may have withdrawn too, so do not try again at once
			c.notBefore = time.Now().Add(remote.Spread(splitDelay))
		}
		if e.err != nil && cause == nil {
			a.Failed.Store(&e.err)
		}
		n := engine.Result{Left: cause, Sent: e.sent, Refused: e.err == nil && !e.won, By: e.by.blocker(q.need), Again: e.left}
		if e.unknown != nil {
			n.Unknown = e.unknown
		}
		switch {
		case cause != nil:
			return n
		case e.err == nil:
			c.on, c.retryAt = true, time.Now().Add(e.left)
			return n
		case !e.passing() || time.Since(start)+delay > limit:
			return engine.Result{Err: e.err}
		}
		if cause := b.Pause(wait, remote.Spread(delay)); cause != nil {
			return engine.Result{Left: cause}
		}
		if a.Once {
			limit = 0
		}
	}
}

// election is one attempt to get the votes of a majority, and its outcome.
type election struct {
	*ballot
	sent        time.Time // the trust in the lease counts from here
	won         bool
	first, last uint64        // the tokens of this owner
	left        time.Duration // if others hold the lock: when to try again without an announcement
	by          rival         // that holder, as far as it is known
	unknown     *quorumError  // why it is not known whether another owner has a majority; nil if it is known
	err         error         // why there was no majority
}

// election runs one election, for the given number of tokens. If others want the lock, the lead is
// asked first. once says that there will be no second attempt, so the other masters are asked
// whatever the lead answers. If it refuses, they are first asked for their state, and for their votes only if
// no owner has a majority of them. (Otherwise callers that ask once, again and again, would take votes away
// from each owner that has just got the lead's. If one of the masters is slow, all would wait for its vote,
// and no caller would be granted the lock.)
func (q *quorum) election(ctx context.Context, cfg *engine.Settings, tokens int, c *contest, once bool) election {
	e := election{ballot: q.newBallot(cfg), by: rival{left: -1}}
	e.learnClocks(ctx)
	if e.err = q.duplicates(); e.err != nil {
		return e
	}
	e.sent, e.first = suspend.System.Now(), q.propose()
	e.last = e.first + uint64(tokens) - 1 //nolint:gosec // at least 1
	what, p := e.voteRequest(1, cfg.TTL(), e.last), q.newTally()
	rest := q.all
	if lead, ok := q.lead(e.patience); ok && c.on {
		e.ask(ctx, what, []int{lead}, p, func() bool { return false })
		rest = without(rest, lead)
		switch a := &p.answers[lead]; {
		case !a.refuses():
		case once:
			if !e.checkFree(ctx, rest, p) {
				rest = nil
			}
		case !c.passes(a.holder()) && e.leadSays(p):
			return e
		}
	}
	if ctx.Err() == nil { // otherwise the caller has left meanwhile
		e.ask(ctx, what, rest, p, func() bool {
			// a majority of refusals also shows who holds the lock
			return p.votes() >= q.need && !e.recentlyStarted(p) || p.refused() >= q.need
		})
	}
	switch {
	case q.duplicates() != nil:
		e.err = q.duplicates()
	case p.votes() >= q.need && e.recentlyStarted(p) && e.contested(p):
		e.left = e.defeat(p)
	case p.votes() >= q.need:
		e.agree(ctx, cfg, p)
	case p.refused() > len(q.voters)-q.need, p.refused() > 0 && p.refused()+p.count((*answer).holds) >= q.need:
		e.left = e.defeat(p)
	default:
		votes := &quorumError{q, p, p.votes()}
		if e.err = votes; p.undecided(q.need) {
			e.unknown = votes // also for callers that ask the lead alone
		}
	}
	if p.refused() > 0 {
		q.rivals().note(q.base.Key, p, q.voters, q.need, e.won, e.unknown)
	}
	return e
}

// leadSays ends an election with the word of the lead, which says no more than all masters did when they were
// asked last. It reports false if all have to be asked again: they left open who has the lock, and that is a
// while ago, or a majority could not be reached. Callers who wait briefly would never find out that they are back.
func (e *election) leadSays(p *tally) bool {
	q, by := e.q, p.rivals()[0]
	unknown, old := q.rivals().unknown(q.base.Key, by.owner)
	if old || q.isDown() {
		return false
	}
	e.left, e.by, e.unknown = e.soon(), by, unknown
	q.rivals().note(q.base.Key, p, q.voters, q.need, false, unknown)
	return true
}

// checkFree asks masters for their state, and reports whether the lock is free at a majority.
func (e *election) checkFree(ctx context.Context, at []int, p *tally) (free bool) {
	enough := func(n int) bool { return n >= e.q.need }
	nothing := func(a *answer) bool { return a.err == nil && a.reply.Status == lua.Gone }
	state := question{call: func(int64) lua.Call { return e.q.voter.State() }, asksState: true}
	e.ask(ctx, state, at, p, func() bool {
		return enough(p.count(nothing)) || slices.ContainsFunc(p.rivals(), func(r rival) bool { return enough(r.masters) })
	})
	if free = enough(p.count(nothing)); free {
		for _, i := range at { // they are asked again
			p.answers[i] = answer{err: errWaiting}
		}
	}
	return free
}

// agree decides the tokens of an election that is won. The token is the greatest that a master
// replied, and a majority must know it. Mostly a majority does, because all masters have replied
// the same token. If that is the proposed token, the reserved tokens before it are the owner's too,
// except those that a master knew.
//
// The answers also show the masters' clocks. If the token is below those, the client proposed it
// before it knew the clocks well, and agree raises it.
func (e *election) agree(ctx context.Context, cfg *engine.Settings, p *tally) {
	proposed, same := e.last, 0
	e.last = 0
	for i := range p.answers {
		a := &p.answers[i]
		if !a.counts {
			continue
		}
		r := a.reply.Vote()
		token, err := strconv.ParseUint(r.Token, 10, 64)
		known, err2 := strconv.ParseUint(r.Last, 10, 64)
		if err != nil || err2 != nil {
			e.err = fmt.Errorf("a master granted the lock with tokens that are no numbers: %q, %q", r.Token, r.Last)
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
	if least := e.q.majorityTime(e.sent); e.last+unsureClocks < least {
		e.last, same = least, 0
	}
	if e.last != proposed {
		e.first = e.last
	}
	e.q.noteToken(e.last)
	e.won = same >= e.q.need || e.tell(ctx, cfg.TTL(), e.last)
	switch took := time.Since(e.sent); {
	case !e.won:
	case took >= watchdog.Trust(cfg.Lease):
		e.won, e.err = false, errSlow
	case took > e.lasts():
		e.won, e.err = false, errHeldUp
	}
	if e.won {
		e.begin(p)
	}
}

// unsureClocks is how far, in microseconds, a token may be below the masters' clocks. Slow answers
// make the knowledge of the clocks inexact, and without this margin that would cost a round trip. A
// restart takes much longer than the margin.
const unsureClocks = 100_000

var errSlow = errors.New("the masters took longer to grant the lock than it can be trusted; use a longer lease")

// errHeldUp ends an election that has taken longer than others allow for, see [gap].
var errHeldUp = errors.New("the process was held up while the masters granted the lock")

// passing reports whether another election may succeed after this one failed.
func (e *election) passing() bool {
	var failure *quorumError
	return errors.Is(e.err, errSlow) || errors.Is(e.err, errHeldUp) || errors.As(e.err, &failure) && !failure.final()
}

// tell makes a token known to a majority.
func (e *election) tell(ctx context.Context, lease time.Duration, token uint64) bool {
	p, text := e.q.newTally(), strconv.FormatUint(token, 10)
	agreed := func() int { return p.count(func(a *answer) bool { return a.counts && a.reply.Vote().Token == text }) }
	e.ask(ctx, e.voteRequest(1, lease, token), e.q.all, p, func() bool { return agreed() >= e.q.need })
	if agreed() < e.q.need {
		e.err = &quorumError{e.q, p, agreed()}
		return false
	}
	return true
}

// recentlyStarted reports whether there are votes of masters that were started less than a lease
// ago and are believed only because the others are as young. Then the answers of all masters
// matter. (Rejected: to remember that all of them granted a lock together, after which a majority
// would do. That would help only during the first lease of a deployment, and only callers that keep
// a Mutex for so long.)
func (e *election) recentlyStarted(p *tally) bool {
	if e.trusts {
		return false
	}
	for i := range p.answers {
		if a := &p.answers[i]; a.counts && time.Since(a.run.Since) < e.longestLease() {
			return true
		}
	}
	return false
}

// contested reports whether another owner would have a majority with the vote of one more master
// that has forgotten it. A young master that knows the token of that owner has not forgotten it.
// The votes of the others do not count then.
func (e *election) contested(p *tally) bool {
	answered := p.count(func(a *answer) bool { return a.err == nil })
	for _, rival := range p.rivals() {
		forgot := func(a *answer) bool { return a.counts && a.reply.Vote().Last != rival.token }
		if p.count(forgot) > 0 && rival.masters+1+len(p.answers)-answered >= e.q.need {
			p.doubt(forgot, rival.owner)
			return true
		}
	}
	return false
}

// Delays until a refused lock is asked for again if no release is announced.
const (
	maxLook = time.Second
	// splitDelay is for split votes, when no owner has the lock. It must be long compared with an
	// election.
	splitDelay = 20 * time.Millisecond
	// joinAfter is the delay after which masters that refused a lock that others granted are asked
	// again. Mostly a rival that has lost had their votes. A hold should not have a bare majority
	// for long.
	joinAfter = 100 * time.Millisecond
)

// lookAgain is when to ask for a lock again whose lease ends in so long; -1: at no known time. It is
// when the lease has ended, and sooner if it is long. (The waiters of all processes then ask at one
// moment, as after a release. They ask the lead first, so they do not split the votes.)
func lookAgain(left time.Duration) time.Duration {
	look := remote.Spread(maxLook)
	if left < 0 {
		return look
	}
	return min(min(left, maxLook)+2*time.Millisecond, look)
}

// untilFree is when a majority of the masters is free if nothing is renewed or released; -1 if that
// is not known.
func (p *tally) untilFree(need int) time.Duration {
	var ends []time.Duration
	for i := range p.answers {
		if a := &p.answers[i]; a.refuses() {
			if left := remote.Remaining(a.reply.Vote().Millis); left >= 0 {
				ends = append(ends, left)
			}
		}
	}
	missing := max(need-p.votes(), 1)
	if len(ends) < missing {
		return -1
	}
	slices.Sort(ends)
	return ends[missing-1]
}

// soon is when to try again if no owner seems to have the lock yet.
func (e *election) soon() time.Duration {
	return remote.Spread(min(splitDelay+4*time.Since(e.sent), maxLook))
}

// defeat is when to try again after an election that another owner has won, or no owner.
func (e *election) defeat(p *tally) time.Duration {
	list := p.rivals()
	holder := slices.IndexFunc(list, func(r rival) bool { return r.masters >= e.q.need })
	if holder < 0 {
		votes := &quorumError{e.q, p, p.votes()}
		if e.by.votes = votes; p.undecided(e.q.need) {
			e.unknown = votes
		}
		return e.soon()
	}
	e.by = list[holder]
	return lookAgain(p.untilFree(e.q.need))
}
