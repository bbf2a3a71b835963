package redlock

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
)

// state asks all masters at once who holds the lock, and waits for none longer than
// [MasterTimeout]. The state is the majority's view:
//
//   - Owner is the owner that holds the lock at a majority. An owner at fewer masters has only
//     votes, not the lock.
//   - Remaining is how long a majority keeps the lock if its holder does not renew it.
//   - Count is the median of these masters' counts, and Token is the greatest token that any of
//     them knows. While the lock is free, the token may come from a failed attempt.
//
// The error is [holdfast.ErrUnavailable] if the masters that did not answer could decide who holds
// the lock, as they do when a majority is silent. The error has each master's answer, and the
// masters are returned all the same.
func (q *quorum) state(ctx context.Context) (holdfast.State, []MasterState, error) {
	p, err := q.survey(ctx)
	if err != nil {
		return holdfast.State{}, nil, err
	}
	masters := q.statesIn(p)
	who := q.holderIn(masters)
	if !who.decided {
		return holdfast.State{}, masters, q.undecided(ctx, p, who.agreed, engine.Reads)
	}
	s := who.state(masters)
	if who.owner != "" {
		holder := rival{owner: who.owner, masters: len(who.at), left: s.Remaining}
		if err := holder.blocker(q.need).Mistake(q.base.Key.Name); err != nil {
			return holdfast.State{}, masters, err
		}
	}
	return s, masters, nil
}

// statesIn returns the masters' answers to the question for the state.
func (q *quorum) statesIn(p *tally) []MasterState {
	list := make([]MasterState, len(p.answers))
	for i := range p.answers {
		a, m := &p.answers[i], &list[i]
		m.Master, m.Waiters = q.voters[i].place, -1
		if m.Err = a.err; m.Err != nil {
			continue
		}
		m.State, a.words = holdfast.State(engine.StateIn(a.reply.State(), false)), "free"
		if m.Owner != "" {
			a.words = heldBy(m.Owner)
		}
	}
	return list
}

// majority is the holder of a lock according to the masters' answers.
type majority struct {
	owner   string // the owner that most masters name; empty if no owner can have a majority
	at      []int  // the masters that name it
	agreed  int    // how many masters give the same answer
	decided bool   // true if the silent masters cannot change the result
}

// holderIn finds out who holds the lock.
func (q *quorum) holderIn(masters []MasterState) (who majority) {
	at, silent := make(map[string][]int), 0
	for i, m := range masters {
		if m.Err != nil {
			silent++
			continue
		}
		at[m.Owner] = append(at[m.Owner], i)
		who.agreed = max(who.agreed, len(at[m.Owner]))
	}
	for _, m := range masters { // in their order, so that a tie always has the same result
		if m.Owner != "" && len(at[m.Owner]) > len(who.at) {
			who.owner, who.at = m.Owner, at[m.Owner]
		}
	}
	switch {
	case len(who.at) >= q.need:
		who.decided = true
	case len(who.at)+silent < q.need:
		who.owner, who.at, who.decided = "", nil, true
	}
	return who
}

// state combines the answers of the masters that name the holder, or of all masters if there is no
// holder.
func (who majority) state(masters []MasterState) holdfast.State {
	s := holdfast.State{Owner: who.owner, Waiters: -1}
	var counts []int
	var left []time.Duration
	for i, m := range masters {
		if who.owner != "" && !slices.Contains(who.at, i) {
			continue
		}
		s.Token, counts = max(s.Token, m.Token), append(counts, m.Count)
		if m.Remaining < 0 {
			m.Remaining = math.MaxInt64 // no end
		}
		left = append(left, m.Remaining)
	}
	if who.owner == "" {
		return s
	}
	slices.Sort(counts)
	slices.Sort(left)
	s.Count = counts[len(counts)/2]
	// The majority that keeps the lock for longest keeps it for this time.
	if s.Remaining = left[len(left)-(len(masters)/2+1)]; s.Remaining == math.MaxInt64 {
		s.Remaining = -time.Millisecond
	}
	return s
}

// forceUnlock frees the lock, whoever holds it, at all masters. A majority must answer.
//
// If the silent masters decide whether the owner has a majority, the owner counts as the holder: no
// other owner can get the lock then, and the caller wants it freed.
func (q *quorum) forceUnlock(ctx context.Context) (bool, error) {
	b := q.base
	p, err := q.survey(ctx)
	if err != nil {
		return false, err
	}
	states, seen := q.statesIn(p), uint64(0)
	for _, s := range states {
		seen = max(seen, s.Token)
	}
	who := q.holderIn(states)
	switch answered := p.count(func(a *answer) bool { return a.err == nil }); {
	case who.decided && who.owner == "":
		return false, nil
	case answered < q.need:
		return false, q.undecided(ctx, p, who.agreed, engine.Reads)
	case !remote.IsOwner(who.owner):
		why := remote.InTheWay(p.answers[who.at[0]].reply.State().Millis, who.owner).Text(0)
		return false, panics.Repanic(errors.New("not released: " + why))
	}
	released := q.each(ctx, func(i int) lua.Call {
		if !slices.Contains(who.at, i) { // this master may not have the owner, or has not answered
			i = who.at[0]
		}
		// The owner's name as this master has it: if the owner has left the lock, see
		// [engine.HoldAtLeast], some masters may not know that.
		return q.voter.Force(p.answers[i].reply.State().Owner, b.Client.Server().Publish, seen)
	})
	return q.forced(ctx, released)
}

// forced is the outcome of releases that were sent to all masters.
func (q *quorum) forced(ctx context.Context, p *tally) (bool, error) {
	b := q.base
	b.RenewNow()
	free, told, refused := 0, false, ""
	for i := range p.answers {
		a := &p.answers[i]
		if a.err != nil {
			continue
		}
		free++
		a.words = "released"
		switch words := a.reply.Unannounced(); {
		case a.reply.Status != lua.Done:
			a.words = "not held"
		case words != "":
			refused = words
		default:
			told = true
		}
	}
	switch {
	case free < q.need:
		return false, q.undecided(ctx, p, free, engine.Changes)
	case !told && refused != "":
		return true, panics.Repanic(errors.New("released, but the waiters could not be told; " +
			engine.ExplainUnannounced(b, refused)))
	}
	return true, nil
}

// survey asks all masters who holds the lock. An error says why it asked nothing.
func (q *quorum) survey(ctx context.Context) (*tally, error) {
	if err := q.base.MayAsk(ctx); err != nil {
		return nil, err
	}
	return q.each(ctx, func(int) lua.Call { return q.voter.State() }), nil
}

// each asks every master once, all at the same time. It returns their answers when all have
// answered, the time for that is over, or ctx has ended. (Rejected: the questions of a [ballot],
// which wait for earlier ones and leave out silent masters. This function is for people, who want
// to know each master's answer now.)
func (q *quorum) each(ctx context.Context, build func(i int) lua.Call) *tally {
	patience := DefaultMasterTimeout
	var cfg engine.Settings
	if err := q.base.Configure(&cfg, nil); err == nil {
		patience = patienceOf(&cfg)
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p := q.newTally()
	var g sync.WaitGroup
	for i, v := range q.voters {
		if v.client.Context().Err() != nil {
			p.answers[i].err = errClosing
			continue
		}
		call, a := build(i), &p.answers[i]
		g.Go(func() {
			a.sent = suspend.System.Now()
			o, ok := v.client.Session().Call(limited, func(ctx context.Context, failed *atomic.Pointer[error]) remote.Outcome {
				return v.client.Session().Repeat(ctx, v.client.Server(), func(bool) lua.Call { return call },
					remote.Retry{Once: true}, failed)
			}, func(remote.Outcome) {})
			switch {
			case ok && (o.Err == nil || !remote.IsContext(o.Err)):
				a.reply, a.err, a.unsent = o.Reply, o.Err, o.Err != nil && (!o.MayArriveLate || o.Unsent)
			case ctx.Err() == nil:
				a.err = v.timeoutError(patience)
			default:
				a.err = v.soFar(a.sent)
			}
		})
	}
	g.Wait()
	return p
}

// undecided is the error of a question to which too few masters gave the same answer.
func (q *quorum) undecided(ctx context.Context, p *tally, agreed int, changes bool) error {
	failure := &quorumError{q, p, agreed}
	o := remote.Outcome{Err: failure, MayArriveLate: changes && failure.open()}
	if cause := context.Cause(ctx); cause != nil {
		o.Err = errs.WithCause(cause, failure)
	}
	return panics.Repanic(engine.Under(ctx, q.base.Uncertain(o)))
}
