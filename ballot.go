package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/master"
	"github.com/holdfast-go/holdfast/lua"
)

// ballot is one owner id before all masters of a quorum: an attempt to get the lock and, if that succeeds, the hold. Each attempt
// has an id of its own, so what comes late of an earlier one can neither grant nor release anything in this one.
//
// It is the server of the grant that it gets the lock for, and of those that this one is handed on to.
type ballot struct {
	q        *quorum
	id       string
	patience time.Duration // that each master has for an answer
	trusts   bool          // a master that has been started a moment ago

	mu    sync.Mutex    // guards the rest; never held over a network call
	lease time.Duration // the longest that was asked for
	votes []vote        // one for each master
	over  bool          // nothing that grants is sent any more
}

// vote is what is known of the owner id at one master.
type vote struct {
	asked   bool // a command was sent that may have granted it
	out     int  // such commands that have no answer yet
	stray   bool // one of them will never have one
	held    bool // the last answer said so
	granted bool // an answer said so once: answers overtake each other, so this and not the last one says what to give back
	counts  bool // it counts: the master cannot have forgotten what it granted to others before
	given   bool // a release was sent
}

var _ server = (*ballot)(nil)

func (q *quorum) newBallot(cfg *config) *ballot {
	return &ballot{
		q: q, id: q.base.client.newOwnerID(), patience: cfg.patience(), trusts: cfg.trustRestarts,
		lease: cfg.lease, votes: make([]vote, len(q.voters)),
	}
}

// question is what is sent to masters.
type question struct {
	call   lua.Call
	grants bool // the lock, where it is free
}

// stand is the question that makes masters grant, or agree.
func (b *ballot) stand(count int, lease time.Duration, token uint64) question {
	b.mu.Lock()
	b.lease = max(b.lease, lease)
	b.mu.Unlock()
	return question{b.q.voter.Vote(b.id, count, lease, token), true}
}

// restand is stand as an operation.
func (b *ballot) restand(count int, lease time.Duration, token uint64) operation {
	what := b.stand(count, lease, token)
	return func(bool) lua.Call { return what.call }
}

// ask sends a question to some masters and collects their answers in p until that is enough, all are there, or it took too long. What
// comes later is noted in the ballot all the same.
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
					a.err = &silence{b.patience}
				}
			}
			p.waiting = 0
		case <-ctx.Done():
			return
		}
	}
}

// errSilent is that a master does not answer.
var errSilent = errors.New("no answer")

type silence struct{ since time.Duration }

func (s *silence) Error() string { return fmt.Sprintf("%v for %v", errSilent, s.since) }
func (s *silence) Unwrap() error { return errSilent }

// send sends a question to a master, in a goroutine of the home client's, and hands on the answer. The error is why none is to be waited
// for; then none is handed on.
func (b *ballot) send(ctx context.Context, i int, what question, hear func(answer)) error {
	v := b.q.voters[i]
	if v.client.ctx.Err() != nil {
		return errClosing
	}
	var err error
	send, silent := v.Begin(b.patience)
	if silent {
		err, hear = &silence{v.Silence().Round(time.Millisecond)}, func(answer) {}
	}
	switch {
	case !send:
		return err
	case what.grants && !b.mayGrant(i):
		v.End(false)
		return ErrReleased
	}
	before, done := v.lane.enter()
	ctx = detach(ctx)
	b.q.base.client.tasks.Often(func() {
		defer close(done)
		v.wait(before, b.patience)
		a := answer{}
		a.reply, a.err = lua.Run(ctx, v.client.single, what.call)
		v.End(a.err == nil || isReply(a.err))
		b.note(ctx, i, what, &a)
		hear(a)
	})
	return err
}

// mayGrant notes that a command is about to be sent that may grant the lock. None is once it is being given back.
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
		vote.held = a.holds()
		vote.granted = vote.granted || vote.held
		vote.counts = vote.counts && vote.held && (!what.grants || a.reply.Int(1) == 1)
		a.counts = vote.counts
	}
	sent := false
	if a.err != nil {
		sent, _ = classify(a.err)
	}
	vote.stray = vote.stray || what.grants && sent
	late := vote.given && what.grants && (sent || a.holds()) // the release came before it, or may have
	b.mu.Unlock()
	if late {
		b.q.base.client.tasks.Go(func() { b.undoAt(i) })
	}
	if a.holds() && !a.counts {
		a.run, a.doubt = b.q.voters[i].Run(ctx)
		if b.trusts {
			a.doubt = nil
		}
	}
}

// judge decides which of the masters that grant the lock are believed. Each answer may change that of the others: a master that was
// taken for a new one, among others as young, is none when an older one is heard.
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
		a.counts = a.doubt == nil
		b.votes[i].counts = a.counts && b.votes[i].held
	}
}

// doubtLocked is why a vote does not count yet.
func (b *ballot) doubtLocked(run *master.Run, first time.Time) error {
	if b.trusts || control.Restarts.Off() {
		return nil
	}
	return run.Doubt(b.horizonLocked(), first)
}

// horizon is for how long a master may matter that has forgotten a grant: the longest lease that is known of.
func (b *ballot) horizon() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.horizonLocked()
}

func (b *ballot) horizonLocked() time.Duration { return max(b.lease, b.q.base.client.opts.Lease) }

// repeat is [server.repeat]. It goes on while a majority neither agrees nor says that the owner does not hold the lock.
func (b *ballot) repeat(ctx context.Context, op operation, failed *atomic.Pointer[error]) (o outcome) {
	start := time.Now()
	for delay := firstBackoff; ; delay = min(2*delay, lastBackoff) {
		o.sent = time.Now()
		p := b.q.newTally()
		b.ask(ctx, question{op(o.stray), true}, b.q.all, p, func() bool {
			return p.votes() >= b.q.need || p.refused() > len(b.votes)-b.q.need
		})
		switch {
		case p.votes() >= b.q.need:
			return outcome{reply: lua.Reply{Status: lua.Done}, sent: o.sent}
		case p.refused() > len(b.votes)-b.q.need:
			return outcome{reply: lua.Reply{Status: lua.Gone}, sent: o.sent}
		}
		if b.given() {
			return outcome{reply: lua.Reply{Status: lua.Gone}, sent: o.sent} // by Close; what was asked came too late
		}
		failure := &quorumError{b.q, p}
		o.err, o.stray = failure, o.stray || failure.open()
		if failed != nil {
			failed.Store(&o.err)
		}
		if failure.final() || control.Resend.Off() || time.Since(start)+delay > b.q.base.client.budget() {
			return o
		}
		select {
		case <-time.After(spread(delay)):
		case <-ctx.Done():
			return o
		}
	}
}

// given tells whether it is being given back.
func (b *ballot) given() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over
}
