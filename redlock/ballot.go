package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/master"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// ballot is one owner id before all masters of a quorum: an attempt to get the lock and, if that
// succeeds, the hold. Each attempt has an id of its own, so what comes late of an earlier one can
// neither grant nor release anything in this one.
//
// It is the entry of the grant that it gets the lock for, and of those that this one is handed on
// to.
type ballot struct {
	engine.Uncertainty
	q        *quorum
	id       string
	patience time.Duration // that each master has for an answer
	trusts   bool          // a master that has been started a moment ago

	mu     sync.Mutex           // guards the rest; never held over a network call
	lease  time.Duration        // the longest that was asked for
	votes  []vote               // one for each master
	won    time.Time            // when it was made the holder
	before uint64               // the greatest token that the masters knew which made it that
	watch  *watchdog.Lease      // of the hold; nil until there is one
	denied bool                 // a master refused it that was asked before it was won
	over   bool                 // nothing that grants is sent any more
	rest   func() time.Duration // for how long the lock is to stay taken, once it is given back; nil: not at all
	why    error                // the hold is lost
}

// vote is what is known of the owner id at one master.
type vote struct {
	asked bool // a command was sent that may have granted it
	out   int  // such commands that have no answer yet
	stray bool // one of them will never have one
	held  bool // the last answer said so
	// an answer said so once: answers overtake each other, so this and not the last one says what
	// to give back
	granted bool
	counts  bool // it counts: the master cannot have forgotten what it granted to others before
	given   bool // a release was sent

	token uint64    // the greatest that the master has told the owner
	run   string    // of the master when it did
	seen  time.Time // when the last question was sent that it answered with "held"
	open  time.Time // from when on it may not have held the lock, if it is not known to hold it now
	gap   gap       // the last one that has ended
}

var _ engine.Entry = (*ballot)(nil)

func (q *quorum) newBallot(cfg *engine.Settings) *ballot {
	return &ballot{
		q: q, id: q.base.Client.NewOwnerID(), patience: patienceOf(cfg), trusts: cfg.TrustRestarts,
		lease: cfg.Lease, votes: make([]vote, len(q.voters)),
	}
}

// Owner is [engine.Entry.Owner].
func (b *ballot) Owner() string { return b.id }

// question is what is sent to masters.
type question struct {
	// call is what is sent to one of them, for which it is not too late until then by its clock, in
	// microseconds.
	call   func(until int64) lua.Call
	grants bool // the lock, where it is free, and refuses itself when it is late
}

// stand is the question that makes masters grant, or agree.
func (b *ballot) stand(count int, lease time.Duration, token uint64) question {
	b.longer(lease)
	return question{func(until int64) lua.Call { return b.q.voter.Vote(b.id, count, lease, token, until) }, true}
}

// longer notes that the lock is about to be held for so long.
func (b *ballot) longer(lease time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lease = max(b.lease, lease)
}

// ask sends a question to some masters and collects their answers in p until that is enough, all
// are there, or it took too long. What comes later is noted in the ballot all the same.
func (b *ballot) ask(ctx context.Context, what question, to []int, p *tally, enough func() bool) {
	type heard struct {
		from int
		answer
	}
	answers := make(chan heard, len(to))
	for _, i := range to {
		if err := b.send(ctx, i, what, func(a answer) { answers <- heard{i, a} }); err != nil {
			p.answers[i].err = err
			continue
		}
		p.waiting++
	}
	timer := time.NewTimer(b.patience)
	defer timer.Stop()
	for p.waiting > 0 && !enough() {
		select {
		case a := <-answers:
			p.answers[a.from] = a.answer
			p.waiting--
			b.judge(p)
		case <-timer.C:
			for _, i := range to {
				if a := &p.answers[i]; errors.Is(a.err, errWaiting) {
					a.err = b.q.voters[i].silence(b.patience)
				}
			}
			p.waiting = 0
		case <-ctx.Done():
			return
		}
	}
}

type silence struct {
	since time.Duration
	why   error // the last failure, if there was one
}

// silence is why a master that has said nothing for so long is not waited for.
func (v *voter) silence(since time.Duration) *silence { return &silence{since, v.Failure()} }

func (s *silence) Error() string {
	text := fmt.Sprintf("%v for %v", remote.ErrSilent, s.since.Round(time.Millisecond))
	if s.why != nil {
		text += ": " + s.why.Error()
	}
	return text
}

func (s *silence) Unwrap() []error {
	if s.why == nil {
		return []error{remote.ErrSilent}
	}
	return []error{remote.ErrSilent, s.why}
}

// unanswered is why there is no answer, nil if there is one.
func unanswered(err error) error {
	if errs.IsReply(err) || errors.Is(err, remote.ErrLate) {
		return nil
	}
	return err
}

// send sends a question to a master, in a goroutine of the home client's, and hands on the answer.
// The error is why none is to be waited for; then none is handed on.
func (b *ballot) send(ctx context.Context, i int, what question, hear func(answer)) error {
	v := b.q.voters[i]
	if v.client.Context().Err() != nil {
		return errClosing
	}
	if what.grants && !b.mayGrant(i) { // before the question begins: a master that is not asked is not silent
		return errs.ErrReleased
	}
	var err error
	send, silent := v.Begin(b.patience)
	if silent {
		err, hear = v.silence(v.Silence()), func(answer) {}
	}
	if !send {
		if what.grants {
			b.unsent(i)
		}
		return err
	}
	begun := suspend.System.Now()
	before, done := v.sequence.enter()
	ctx = remote.Detach(ctx)
	b.q.base.Client.Tasks().Often(func() {
		defer close(done)
		v.wait(before, b.patience)
		a := b.attempt(ctx, v, what)
		if what.grants && errors.Is(a.err, remote.ErrLate) && !b.given() {
			a = b.attempt(ctx, v, what) // now the clock is known: at once
		}
		a.begun = begun
		v.End(unanswered(a.err))
		if a.err == nil {
			v.Took(time.Since(a.sent))
		}
		b.note(ctx, i, what, &a)
		b.settle(i, &a)
		hear(a)
		// who is only ever refused has to know the masters too, to ask the same one first as the
		// others
		if a.refuses() && v.Known() == nil {
			b.q.base.Client.Tasks().Go(func() { _, _ = v.Run(ctx) })
		}
	})
	return err
}

// attempt sends a question to a master once. One that grants has to be refused when it is late, so
// the master's clock is asked for where it is not known.
func (b *ballot) attempt(ctx context.Context, v *voter, what question) (a answer) {
	defer func() { a.unsent = lua.IsUnsent(a.err) }()
	if !what.grants {
		a.sent = suspend.System.Now()
		a.reply, a.err = lua.Run(ctx, v.client.Server().Single, what.call(0))
		return a
	}
	k := &v.client.Server().Clock
	if a.err = v.client.Server().Meet(ctx); a.err != nil {
		return a
	}
	a.sent = suspend.System.Now()
	call := what.call(k.Limit())
	if b.trusts {
		a.reply, a.err = lua.Run(ctx, v.client.Server().Single, call)
	} else {
		var info *redis.StringCmd
		a.reply, a.err = lua.RunBefore(ctx, v.client.Redis(), call, func() redis.Cmder {
			info = redis.NewStringCmd(ctx, "info", "server")
			return info
		})
		a.run, a.doubt = v.Heard(info.Result())
	}
	switch {
	case a.err != nil:
	case a.reply.Status == lua.Late: // no word of who holds the lock
		k.Refused(a.sent, a.reply.Text(0))
		a.err = remote.ErrLate
	default:
		k.Saw(a.sent, a.reply.Text(3))
	}
	return a
}

// mayGrant notes that a command is about to be sent that may grant the lock. None is once it is
// being given back.
func (b *ballot) mayGrant(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return false
	}
	b.votes[i].asked = true
	b.votes[i].out++
	return true
}

// unsent takes back that a command is about to be sent.
func (b *ballot) unsent(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.votes[i].out--
}

// wait waits until what was sent before has its answer, but not for long.
func (v *voter) wait(before <-chan struct{}, patience time.Duration) {
	if before == nil {
		return
	}
	select {
	case <-before:
		return
	default:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-before:
	case <-timer.C:
	}
}

// note notes what came of a question.
func (b *ballot) note(ctx context.Context, i int, what question, a *answer) {
	b.mu.Lock()
	vote := &b.votes[i]
	if what.grants {
		vote.out--
	}
	if a.err == nil {
		b.trackLocked(i, what, a)
		vote.held = a.holds()
		vote.granted = vote.granted || vote.held
		vote.counts = vote.counts && vote.held && (!what.grants || a.reply.Int(1) == 1)
		a.counts = vote.counts
	}
	sent := false
	if a.err != nil {
		b.q.base.Client.Session().NotePanic(a.err)
		sent, _ = remote.Classify(a.err)
	}
	vote.stray = vote.stray || what.grants && sent
	late, rest := vote.given && what.grants && (sent || a.holds()), b.rest // the release came before it, or may have
	b.mu.Unlock()
	if late {
		b.undoAt(i)
	}
	// it stands for a lease, also when this client is closed
	if late && rest != nil && a.holds() {
		b.q.base.Client.Tasks().Go(func() { b.releaseAt(ctx, i, func(bool) lua.Call { return b.farewell(rest()) }) })
	}
	switch {
	case !a.holds() || a.counts:
		a.run, a.doubt = nil, nil
		return
	case a.run == nil && a.doubt == nil:
		a.run, a.doubt = b.q.voters[i].Run(ctx)
	}
	if b.trusts {
		a.doubt = nil
	}
}

// judge decides which of the masters that grant the lock are believed. Each answer may change that
// of the others: a master that was taken for a new one, among others as young, is none when an
// older one is heard.
func (b *ballot) judge(p *tally) {
	first := b.q.first()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range p.answers {
		a := &p.answers[i]
		if a.run == nil && !b.trusts || !a.holds() {
			continue // it counts already, or does not
		}
		a.doubt = b.doubtLocked(a.run, first)
		if a.doubt == nil {
			a.doubt = b.votes[i].gap.doubt()
		}
		a.counts = a.doubt == nil
		b.votes[i].counts = a.counts && b.votes[i].held
	}
}

// doubtLocked is why a vote does not count yet.
func (b *ballot) doubtLocked(run *master.Run, first time.Time) error {
	if b.trusts {
		return nil
	}
	return run.Doubt(b.longestLeaseLocked(), first)
}

// longestLease is the longest that is known of: for so long a master may matter that has forgotten
// a grant.
func (b *ballot) longestLease() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.longestLeaseLocked()
}

func (b *ballot) longestLeaseLocked() time.Duration {
	return max(b.lease, b.q.base.Client.DefaultLease())
}

// Set is [engine.Entry.Set]. It is for no replicas: [quorum.Check] refuses those.
func (b *ballot) Set(ctx context.Context, count int, lease time.Duration, _ remote.Replicas,
	failed *atomic.Pointer[error]) remote.Outcome {
	b.longer(lease)
	return b.Sent(b.repeat(ctx, func(bool) lua.Call { return b.q.voter.Recount(b.id, count, lease) }, failed))
}

// Extend is [engine.Entry.Extend].
func (b *ballot) Extend(ctx context.Context, lease time.Duration, failed *atomic.Pointer[error]) remote.Outcome {
	b.longer(lease)
	return b.repeat(ctx, func(bool) lua.Call { return b.q.voter.Renew(b.id, lease) }, failed)
}

// repeat is [engine.Client.repeat], for operations of the holder, which grant nothing. It goes on
// while a majority neither agrees nor says that the owner does not hold the lock.
func (b *ballot) repeat(ctx context.Context, op remote.Operation, failed *atomic.Pointer[error]) (o remote.Outcome) {
	start := time.Now()
	for delay := remote.FirstBackoff; ; delay = min(2*delay, remote.LastBackoff) {
		o.Sent = suspend.System.Now()
		p := b.q.newTally()
		call := op(o.Stray)
		b.ask(ctx, question{call: func(int64) lua.Call { return call }}, b.q.all, p, func() bool {
			return p.votes() >= b.q.need || p.refused() > len(b.votes)-b.q.need
		})
		switch {
		case p.refused() > len(b.votes)-b.q.need || b.lost(p):
			return b.gone(p)
		case p.votes() >= b.q.need && !b.overtaken(none):
			return remote.Outcome{Reply: lua.Reply{Status: lua.Done}, Sent: o.Sent}
		case b.given(): // by Close; what was asked came too late
			return remote.Outcome{Reply: lua.Reply{Status: lua.Gone}, Sent: o.Sent}
		}
		failure := &quorumError{b.q, p, p.votes()}
		o.Err, o.Stray = failure, o.Stray || failure.open()
		if failed != nil {
			err := o.Err // for the caller, who may read it while the next attempt fails
			failed.Store(&err)
		}
		if failure.final() || time.Since(start)+delay > b.q.base.Client.Session().Budget() {
			return o
		}
		select {
		case <-time.After(remote.Spread(delay)):
		case <-ctx.Done():
			return o
		}
	}
}

// given reports whether it is being given back.
func (b *ballot) given() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over
}
