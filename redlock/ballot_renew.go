package redlock

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// renewal is one hold of a quorum lock that is due for renewal, and the answers of its masters.
type renewal struct {
	*ballot
	serverLease  *engine.ServerLease
	length       time.Duration
	count        int
	token        uint64
	requestedTTL time.Duration // for how long a master that restores the hold must keep it
	tally        *tally
	missing      int // answers
}

// verdict draws the conclusion from the answers so far. It is enough if a majority has renewed the
// hold. The lock is lost if a majority may have granted it to another owner, see [gap], or if
// another owner keeps a majority out of reach. If several other owners hold it at the other
// masters, nothing is decided yet: mostly their elections failed, and they will give it back.
func (r *renewal) verdict() watchdog.Verdict {
	r.judge(r.tally)
	switch {
	case r.lost(r.tally):
		r.gone(r.tally)
		return watchdog.Gone
	case r.tally.votes() >= r.q.need && !r.overtaken(none):
		return watchdog.Renewed
	}
	return watchdog.Unknown
}

// renewalAnswer is an answer to a renewal.
type renewalAnswer struct {
	to   int // place in the batch
	from int // master
	answer
}

// votes renews a client's holds of quorum locks. They have a watchdog of their own, so that a slow
// master does not delay the locks of the client's own server.
type votes struct{ home *engine.Client }

// Lane is [engine.Renewer.Lane].
func (votes) Lane() func(watchdog.Owner) any { return nil }

// Renew is [engine.Renewer.Renew]. Each master gets one pipeline for all holds that it has granted.
// A master that does not know a hold, because it was restarted or out of reach, is asked to restore
// it.
func (v votes) Renew(ctx context.Context, batch []watchdog.Renewal) {
	due, patience := make([]*renewal, len(batch)), time.Duration(0)
	for i, r := range batch {
		t := r.Owner.(*engine.ServerLease)
		b := t.Entry.(*ballot)
		due[i] = &renewal{ballot: b, serverLease: t, length: r.Length, tally: b.q.newTally()}
		due[i].count, due[i].token, due[i].requestedTTL = t.Snapshot()
		patience = max(patience, b.patience)
	}
	answers := make(chan renewalAnswer, votersOf(due))
	for _, e := range batches(ctx, due, answers) {
		v.send(ctx, e, due, patience, answers)
	}
	open := 0
	for _, r := range due {
		if !r.settled() {
			open++
		}
	}
	if open > 0 {
		await(ctx, patience, answers, cap(answers), func(a renewalAnswer) bool {
			r := due[a.to]
			before := r.settled()
			if r.noteAnswer(a); !before && r.settled() {
				open--
			}
			return open == 0
		})
	}
	for i, r := range due {
		batch[i].Verdict = r.verdict()
		if batch[i].Verdict == watchdog.Gone && r.MayBeReleased() {
			batch[i].Verdict = watchdog.Unknown // the command under way may have released it
		}
		var reason error
		if batch[i].Verdict == watchdog.Unknown {
			reason = panics.Text(&quorumError{r.q, r.tally, r.tally.votes()}) // text: the reader must not panic
			r.serverLease.RenewalError.Store(&reason)
			batch[i].Err = reason
		} else if r.serverLease.RenewalError.Load() != nil {
			r.serverLease.RenewalError.Store(nil)
		}
	}
}

func votersOf(due []*renewal) (n int) {
	for _, r := range due {
		n += len(r.votes)
	}
	return n
}

// settled reports whether no missing answer can change the verdict.
func (r *renewal) settled() bool { return r.missing == 0 || r.verdict() != watchdog.Unknown }

// batch has the renewals for one master.
type batch struct {
	voter *voter
	calls []lua.Call
	of    []renewalAnswer // the holds that the calls renew
}

// batches returns the renewals for each master. They leave out holds that a master does not know:
// batches asks the master to restore those.
func batches(ctx context.Context, due []*renewal, answers chan<- renewalAnswer) (list []*batch) {
	at := map[*engine.Client]*batch{}
	for to, r := range due {
		for i, v := range r.q.voters {
			if !r.holds(i) {
				r.restore(ctx, to, i, answers)
				continue
			}
			e := at[v.client]
			if e == nil {
				e = &batch{voter: v}
				at[v.client] = e
				list = append(list, e)
			}
			e.calls = append(e.calls, r.q.voter.Renew(r.id, r.length))
			e.of = append(e.of, renewalAnswer{to: to, from: i})
			r.missing++
		}
	}
	return list
}

// send sends a batch in one pipeline. It does not wait for a master that is known to be silent.
func (v votes) send(ctx context.Context, e *batch, due []*renewal, patience time.Duration, answers chan<- renewalAnswer) {
	to := e.voter
	send, silent := to.Begin(patience)
	if silent {
		for _, a := range e.of {
			due[a.to].tally.answers[a.from].err = to.timeoutError(to.Silence())
			due[a.to].missing--
		}
	}
	if !send {
		return
	}
	v.home.Tasks().Go(func() {
		failure, sent := remote.ErrSilent, suspend.System.Now()
		var forgot []renewalAnswer
		to.Asks()
		results := lua.RenewAll(remote.Detach(ctx), to.client.Redis(), e.calls)
		v.home.Session().ReportAll(sent, e.calls, results)
		for n, result := range results {
			a := e.of[n]
			a.reply, a.err, a.sent = result.Reply, result.Err, sent
			if failure != nil {
				failure = unanswered(a.err)
			}
			due[a.to].note(ctx, a.from, question{}, &a.answer)
			switch {
			case a.err == nil && a.reply.Status == lua.Gone:
				forgot = append(forgot, a)
			case !silent:
				answers <- a
			}
		}
		to.End(failure)
		for _, a := range forgot {
			due[a.to].retake(ctx, a, !silent, answers)
		}
	})
}

// retake asks a master to restore a hold that it has just said it does not know. The goroutine that
// receives the answer does this, and not the one that counts the answers: the count ends when the
// other masters have renewed the hold. expected says that the count still expects an answer of this
// master. The answer to retake is then the one that counts.
func (r *renewal) retake(ctx context.Context, a renewalAnswer, expected bool, answers chan<- renewalAnswer) {
	onAnswer := func(answer) {}
	if expected {
		onAnswer = func(late answer) { answers <- renewalAnswer{a.to, a.from, late} }
	}
	count, token, requestedTTL := r.serverLease.Snapshot() // the present state, because the answer may have taken long
	if err := r.send(ctx, a.from, r.voteRequest(count, requestedTTL, token), onAnswer); err != nil {
		onAnswer(answer{err: err})
	}
}

// holds reports whether a master is believed to know the hold.
func (b *ballot) holds(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.votes[i].held
}

// restore asks a master to restore the hold.
func (r *renewal) restore(ctx context.Context, to, i int, answers chan<- renewalAnswer) {
	err := r.send(ctx, i, r.voteRequest(r.count, max(r.length, r.requestedTTL), r.token),
		func(a answer) { answers <- renewalAnswer{to, i, a} })
	if err != nil {
		r.tally.answers[i].err = err
		return
	}
	r.missing++
}

// live notes that the owner has a hold, which the watchdog renews. If the masters' answers until
// now call for it, the hold is renewed again
//
//   - soon, if a master that was asked before the win refused: mostly a rival had its vote, and has
//     lost;
//   - when a gap that ended with a master's first grant is over, so that a gap of another master
//     begins after that.
func (b *ballot) live(watch *watchdog.Lease) {
	b.mu.Lock()
	b.watch = watch
	refused, left := b.refused, time.Duration(0)
	for i := range b.votes {
		left = max(left, b.votes[i].gap.joins())
	}
	b.mu.Unlock()
	b.renewAgain(watch, refused, left)
}

// settle does what [ballot.live] does, for a later answer of master i.
func (b *ballot) settle(i int, a *answer) {
	b.mu.Lock()
	watch, refused, left := b.watch, a.refuses() && (b.won.IsZero() || a.begun.Before(b.won)), time.Duration(0)
	if a.err == nil && a.reply.Status == lua.Gone {
		refused = true // the answer of a master that has forgotten the holder
	}
	b.refused = b.refused || refused
	if a.holds() {
		left = b.votes[i].gap.joins()
	}
	b.mu.Unlock()
	if watch != nil {
		b.renewAgain(watch, refused, left)
	}
}

func (b *ballot) renewAgain(watch *watchdog.Lease, refused bool, left time.Duration) {
	if refused {
		b.q.base.Dog.RenewBy(watch, joinAfter)
	}
	if left > 0 {
		b.q.base.Dog.RenewAfter(watch, left)
	}
}

// noteAnswer stores an answer.
func (r *renewal) noteAnswer(a renewalAnswer) {
	r.missing--
	r.tally.answers[a.from] = a.answer
}
