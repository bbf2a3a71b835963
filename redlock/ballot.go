package redlock

import (
	"context"
	"errors"
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

// ballot is one owner id at all masters of a quorum: an attempt to get the lock and, if the attempt
// succeeds, the hold. Each attempt has an id of its own, so late commands of an earlier attempt can
// neither grant nor release anything in this one.
//
// A ballot is the entry of the grant that it gets the lock for, and of the grants to which the lock is
// then handed off.
type ballot struct {
	engine.CommandState
	q        *quorum
	id       string
	patience time.Duration // the time that each master has for an answer
	trusts   bool          // a master that was started a moment ago is trusted

	mu      sync.Mutex           // guards the rest; never held over a network call
	lease   time.Duration        // the longest that was asked for
	votes   []vote               // one for each master
	won     time.Time            // when the owner became the holder
	before  uint64               // the greatest token that was known, before the win, to the masters that granted it
	watch   *watchdog.Lease      // of the hold; nil until there is one
	refused bool                 // a master that was asked before the win refused
	over    bool                 // nothing that grants is sent any more
	rest    func() time.Duration // for how long the lock stays taken after its release; nil: not at all
	why     error                // why the hold is lost
}

// vote is what is known of the owner id at one master.
type vote struct {
	asked         bool // a command was sent that may have granted it
	out           int  // how many such commands have no answer yet
	mayArriveLate bool // one of them will never have an answer
	held          bool // the last answer said that the owner holds the lock
	// some answer said that the owner holds the lock. Answers overtake each other, so this field,
	// and not held, decides whether there is something to give back
	granted     bool
	counts      bool // the vote counts: the master cannot have forgotten an earlier grant to another owner
	releaseSent bool // a release was sent

	token uint64    // the greatest token that the master has told the owner
	run   string    // the master's run id at that time
	seen  time.Time // when the last question that it answered with "held" was sent
	open  time.Time // the time since which the master may not have held the lock; zero if it is known to hold the lock
	gap   gap       // the last gap that has ended
}

var _ engine.Entry = (*ballot)(nil)

func (q *quorum) newBallot(cfg *engine.Settings) *ballot {
	return &ballot{
		q: q, id: q.base.Client.NewOwnerID(false), patience: patienceOf(cfg), trusts: cfg.TrustRestarts,
		lease: cfg.Lease, votes: make([]vote, len(q.voters)),
	}
}

// Owner is [engine.Entry.Owner].
func (b *ballot) Owner() string { return b.id }

// question is a command that a ballot sends to masters.
type question struct {
	// call makes the command for one master. The command is in time until the given moment, in
	// microseconds by that master's clock.
	call      func(until int64) lua.Call
	grants    bool // the command grants the lock if it is free, and refuses itself if it is late
	asksState bool // the command asks for the state, and the answer is what a vote would be: a refusal, or not held
}

// voteRequest is the question that asks masters to grant the lock, or to agree to a token.
func (b *ballot) voteRequest(count int, lease time.Duration, token uint64) question {
	b.noteLease(lease)
	return question{call: func(until int64) lua.Call { return b.q.voter.Vote(b.id, count, lease, token, until) }, grants: true}
}

// noteLease notes that the lock may be held for this lease from now on.
func (b *ballot) noteLease(lease time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lease = max(b.lease, lease)
}

// ask sends a question to some masters and collects their answers in p. It returns when the answers
// are enough, when all are there, or when the patience is over. Answers that come later are still
// noted in the ballot.
func (b *ballot) ask(ctx context.Context, what question, to []int, p *tally, enough func() bool) {
	type masterAnswer struct {
		from int
		answer
	}
	answers, waiting := make(chan masterAnswer, len(to)), 0
	for _, i := range to {
		if err := b.send(ctx, i, what, func(a answer) { answers <- masterAnswer{i, a} }); err != nil {
			p.answers[i].err = err
			continue
		}
		waiting++
	}
	begun, timer := time.Now(), time.NewTimer(b.patience)
	defer timer.Stop()
	for waiting > 0 && !enough() {
		select {
		case a := <-answers:
			p.answers[a.from] = a.answer
			waiting--
			b.judge(p)
		case <-timer.C:
			for _, i := range to {
				if a := &p.answers[i]; errors.Is(a.err, errWaiting) {
					a.err = b.q.voters[i].timeoutError(b.patience)
				}
			}
			waiting = 0
		case <-ctx.Done():
			for _, i := range to {
				if a := &p.answers[i]; errors.Is(a.err, errWaiting) {
					a.err = b.q.voters[i].soFar(begun)
				}
			}
			return
		}
	}
}

// unanswered returns the reason why there is no answer, and nil if there is an answer.
func unanswered(err error) error {
	if errs.IsReply(err) || errors.Is(err, remote.ErrLate) {
		return nil
	}
	return err
}

// ended notes what became of a question to a master.
func (v *voter) ended(err error) {
	if v.End(unanswered(err)); remote.ServesNot(err) {
		v.Refused(err)
	}
}

// send sends a question to a master, in a goroutine of the home client, and passes the answer to
// onAnswer. An error says why no answer will come; onAnswer is then not called. A question that grants is
// not sent if the lock is being given back when its turn comes: its caller has left, and the next
// caller would wait for it. A silent master is then asked something else, which nobody waits for.
func (b *ballot) send(ctx context.Context, i int, what question, onAnswer func(answer)) error {
	v := b.q.voters[i]
	if v.client.Context().Err() != nil {
		return errClosing
	}
	if what.grants && !b.mayGrant(i) { // checked before Begin: a master that is not asked is not silent
		return errs.ErrReleased
	}
	var err error
	send, silent := v.Begin(b.patience)
	if silent {
		err, onAnswer = v.timeoutError(v.Silence()), func(answer) {}
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
		v.wait(before, b.patience)
		if what.grants && b.releasing() {
			b.unsent(i)
			close(done)
			if silent {
				v.probe(ctx, b.patience)
			} else {
				v.Unsent()
			}
			onAnswer(answer{err: errs.ErrReleased, unsent: true})
			return
		}
		defer close(done)
		v.Asks()
		a, repeats := b.attempt(ctx, v, what), 0
		if what.grants && errors.Is(a.err, remote.ErrLate) && !b.releasing() {
			a, repeats = b.attempt(ctx, v, what), 1 // at once, because the clock is known now
		}
		a.begun = begun
		if !a.sent.IsZero() { // otherwise not even its clock is known
			b.q.base.Client.Session().Report(a.script, begun, repeats, a.err)
		}
		v.ended(a.err)
		if a.err == nil {
			v.Took(time.Since(a.sent))
		}
		b.note(ctx, i, what, &a)
		b.settle(i, &a)
		onAnswer(a)
		// a client that is always refused must learn the masters' runs too, so that it asks the
		// same master first as the other clients
		if a.refuses() && v.Known() == nil {
			b.q.base.Client.Tasks().Go(func() { _, _ = v.Run(ctx) })
		}
	})
	return err
}

// attempt sends a question to a master once. A question that grants must be refused when it is
// late, so attempt asks for the master's clock if that is not known.
func (b *ballot) attempt(ctx context.Context, v *voter, what question) (a answer) {
	defer func() { a.unsent = lua.IsUnsent(a.err) }()
	if !what.grants {
		call := what.call(0)
		a.sent, a.script = suspend.System.Now(), call.Script()
		if a.reply, a.err = lua.Run(ctx, v.client.Server().Single, call); what.asksState && a.err == nil {
			a.reply = lua.VoteOfState(a.reply)
		}
		return a
	}
	k := &v.client.Server().Clock
	if a.err = v.client.Server().LearnClock(ctx); a.err != nil {
		return a
	}
	a.sent = suspend.System.Now()
	call := what.call(k.Limit())
	a.script = call.Script()
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
	case a.reply.Status == lua.Late: // the reply does not say who holds the lock
		k.Refused(a.sent, a.reply.LateTime())
		a.err = remote.ErrLate
	default:
		k.Saw(a.sent, a.reply.Vote().Time)
	}
	return a
}

// probe asks a silent master whether it is back. If the answer does not come, the next probe goes out
// by another connection, so it is not waited for much longer than a connection may take.
func (v *voter) probe(ctx context.Context, patience time.Duration) {
	ctx, cancel := v.client.Server().Within(ctx, max(patience, remote.LeastDial))
	defer cancel()
	v.Probe(ctx)
}

// mayGrant notes that a command that may grant the lock is about to be sent. It reports false, and
// the command must not be sent, once the lock is being given back.
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

// unsent takes the note of [ballot.mayGrant] back: the command was not sent.
func (b *ballot) unsent(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.votes[i].out--
}

// wait waits until the command before has its answer, but no longer than patience.
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

// note stores the outcome of a question.
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
		vote.counts = vote.counts && vote.held && (!what.grants || a.reply.Vote().Again)
		a.counts = vote.counts
	}
	sent := false
	if a.err != nil {
		b.q.base.Client.Session().NotePanic(a.err)
		sent, _ = remote.Classify(a.err)
	}
	vote.mayArriveLate = vote.mayArriveLate || what.grants && sent
	late, rest := vote.releaseSent && what.grants && (sent || a.holds()), b.rest // the release may have come first
	b.mu.Unlock()
	if late {
		b.undoAt(i)
	}
	// the late vote lasts for a lease, even if this client is closed
	if late && rest != nil && a.holds() {
		b.q.base.Client.Tasks().Go(func() {
			b.releaseAt(ctx, remote.SharedBudget{}, i, func(bool) lua.Call { return b.releaseCommand(rest()) })
		})
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

// judge decides which of the masters that grant the lock are believed. Each answer may change the
// result for the other masters: among masters that are all young, each counts as new; when an older
// master answers, the young ones do not count as new any more.
func (b *ballot) judge(p *tally) {
	first := b.q.first()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range p.answers {
		a := &p.answers[i]
		if a.run == nil && !b.trusts || !a.holds() {
			continue // decided before, or not granted
		}
		a.doubt = b.doubtLocked(a.run, first)
		if a.doubt == nil {
			a.doubt = b.votes[i].gap.doubt()
		}
		a.counts = a.doubt == nil
		b.votes[i].counts = a.counts && b.votes[i].held
	}
}

// doubtLocked returns the reason why a vote does not count yet, or nil.
func (b *ballot) doubtLocked(run *master.Run, first time.Time) error {
	if b.trusts {
		return nil
	}
	return run.Doubt(b.longestLeaseLocked(), first)
}

// longestLease is the longest lease that is known. For so long, a grant that a master has forgotten
// may still matter.
func (b *ballot) longestLease() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.longestLeaseLocked()
}

func (b *ballot) longestLeaseLocked() time.Duration {
	return max(b.lease, b.q.base.Client.DefaultLease())
}

// Set is [engine.Entry.Set]. It ignores replicas: [quorum.Check] refuses the option. It always has a budget of its
// own.
func (b *ballot) Set(ctx context.Context, _ remote.SharedBudget, count int, lease time.Duration, _ remote.Replicas,
	failed *atomic.Pointer[error]) remote.Outcome {
	b.noteLease(lease)
	return b.Sent(b.repeat(ctx, func(bool) lua.Call { return b.q.voter.Recount(b.id, count, lease) }, failed))
}

// Extend is [engine.Entry.Extend].
func (b *ballot) Extend(ctx context.Context, lease time.Duration, failed *atomic.Pointer[error]) remote.Outcome {
	b.noteLease(lease)
	return b.repeat(ctx, func(bool) lua.Call { return b.q.voter.Renew(b.id, lease) }, failed)
}

// repeat repeats an operation of the holder, which does not grant the lock. It goes on until a majority
// agrees, or says that the owner does not hold the lock, or the retry budget is spent.
func (b *ballot) repeat(ctx context.Context, op remote.Operation, failed *atomic.Pointer[error]) (o remote.Outcome) {
	start := time.Now()
	for delay := remote.FirstBackoff; ; delay = min(2*delay, remote.LastBackoff) {
		o.Sent = suspend.System.Now()
		p := b.q.newTally()
		call := op(o.MayArriveLate)
		b.ask(ctx, question{call: func(int64) lua.Call { return call }}, b.q.all, p, func() bool {
			return p.votes() >= b.q.need || p.refused() > len(b.votes)-b.q.need
		})
		switch {
		case p.refused() > len(b.votes)-b.q.need || b.lost(p):
			return b.gone(p)
		case p.votes() >= b.q.need && !b.overtaken(none):
			return remote.Outcome{Reply: lua.Reply{Status: lua.Done}, Sent: o.Sent}
		case b.releasing(): // Close has released it; the operation came too late
			return remote.Outcome{Reply: lua.Reply{Status: lua.Gone}, Sent: o.Sent}
		}
		failure := &quorumError{b.q, p, p.votes()}
		o.Err, o.MayArriveLate = failure, o.MayArriveLate || failure.open()
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

// releasing reports whether the lock is being given back.
func (b *ballot) releasing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over
}
