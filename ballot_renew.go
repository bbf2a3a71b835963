package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// renewal is one hold of a quorum lock that is due, and what its masters have said.
type renewal struct {
	*ballot
	tenure  *tenure
	length  time.Duration
	count   int
	token   uint64
	tally   *tally
	missing int // answers
}

// verdict is what follows from the answers so far. A majority that is renewed is enough; the lock is lost when other owners have so
// many masters that there can be none.
func (r *renewal) verdict() watchdog.Verdict {
	r.judge(r.tally)
	switch {
	case r.tally.votes() >= r.q.need:
		return watchdog.Renewed
	case r.tally.refused() > len(r.votes)-r.q.need:
		return watchdog.Gone
	}
	return watchdog.Unknown
}

// said is an answer to a renewal.
type said struct {
	to   int // place in the batch
	from int // master
	answer
}

// renewVotes is the watchdog's access to masters: one pipeline to each for all holds that it has granted. A master that does not know a
// hold, because it was started anew or out of reach, is asked to take it back.
func (c *Client) renewVotes(ctx context.Context, batch []watchdog.Renewal) {
	due, patience := make([]*renewal, len(batch)), time.Duration(0)
	for i, r := range batch {
		t := r.Owner.(*tenure)
		b := t.server.(*ballot)
		due[i] = &renewal{ballot: b, tenure: t, length: r.Length, tally: b.q.newTally()}
		due[i].count, due[i].token = t.standing()
		patience = max(patience, b.patience)
	}
	answers := make(chan said, 2*votersOf(due)) // each may be asked twice
	open := renewAll(ctx, due, answers)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for open > 0 {
		select {
		case a := <-answers:
			r := due[a.to]
			before := r.settled()
			if r.hear(ctx, a, answers); !before && r.settled() {
				open--
			}
			continue
		case <-timer.C:
		case <-ctx.Done():
		}
		break
	}
	for i, r := range due {
		batch[i].Verdict = r.verdict()
		var reason error
		if batch[i].Verdict == watchdog.Unknown {
			reason = &quorumError{r.q, r.tally}
			r.tenure.refusal.Store(&reason)
		} else if r.tenure.refusal.Load() != nil {
			r.tenure.refusal.Store(nil)
		}
	}
}

func votersOf(due []*renewal) (n int) {
	for _, r := range due {
		n += len(r.votes)
	}
	return n
}

// settled tells whether no answer that is missing can change anything.
func (r *renewal) settled() bool { return r.missing == 0 || r.verdict() != watchdog.Unknown }

// renewAll sends renewals, and returns of how many holds the outcome is open.
func renewAll(ctx context.Context, due []*renewal, answers chan<- said) (open int) {
	type part struct {
		calls []lua.Call
		of    []said
	}
	parts := map[*voter]*part{}
	byClient := map[*Client]*voter{}
	for to, r := range due {
		for i, v := range r.q.voters {
			if !r.holds(i) {
				r.join(ctx, to, i, answers)
				continue
			}
			first := byClient[v.client]
			if first == nil {
				first = v
				byClient[v.client], parts[v] = v, &part{}
			}
			p := parts[first]
			p.calls = append(p.calls, r.q.voter.Renew(r.names(), "", r.length))
			p.of = append(p.of, said{to: to, from: i})
			r.missing++
		}
	}
	for v, p := range parts {
		home := due[0].q.base.client
		send, silent := v.Begin(due[0].patience)
		if !send || silent {
			for _, a := range p.of {
				due[a.to].tally.answers[a.from].err = &silence{v.Silence().Round(time.Millisecond)}
				due[a.to].missing--
			}
		}
		if !send {
			continue
		}
		home.tasks.Go(func() {
			answered := false
			for n, result := range lua.RenewAll(context.WithoutCancel(ctx), v.client.rdb, p.calls) {
				a := p.of[n]
				a.reply, a.err = result.Reply, result.Err
				answered = answered || a.err == nil || isReply(a.err)
				due[a.to].note(ctx, a.from, question{}, &a.answer)
				if !silent {
					answers <- a
				}
			}
			v.End(answered)
		})
	}
	for _, r := range due {
		if !r.settled() {
			open++
		}
	}
	return open
}

// holds tells whether a master is believed to know the hold.
func (b *ballot) holds(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.votes[i].held
}

// join asks a master to take the hold back.
func (r *renewal) join(ctx context.Context, to, i int, answers chan<- said) {
	if control.Join.Off() {
		return
	}
	err := r.send(ctx, i, r.stand(r.count, r.length, r.token), func(a answer) { answers <- said{to, i, a} })
	if err != nil {
		r.tally.answers[i].err = err
		return
	}
	r.missing++
}

// hear takes an answer.
func (r *renewal) hear(ctx context.Context, a said, answers chan<- said) {
	r.missing--
	if a.err == nil && a.reply.Status == lua.Gone {
		r.join(ctx, a.to, a.from, answers)
		return
	}
	r.tally.answers[a.from] = a.answer
}
