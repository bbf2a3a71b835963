package workload

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/integration_test/history"
)

// Candidate is one goroutine that wants to lead: it campaigns, or has Run do it, leads a while, asks who leads, and resigns.
type Candidate struct {
	*Actor
	own   map[string]*election.Election // those that it has campaigned in
	terms int
}

// Run campaigns again and again until ctx ends or the client is closed. Who leads then resigns.
func (a *Candidate) Run(ctx context.Context) { a.again(ctx, a.round) }

func (a *Candidate) round(ctx context.Context) bool {
	name := a.Name(a.rng)
	e := a.own[name]
	if e == nil {
		e = election.New(a.c, name)
		a.own[name] = e
	}
	a.look(ctx, e)
	if a.rng.IntN(3) == 0 && a.Hurry == 0 { // Run has no wait of its own
		return a.run(ctx, e)
	}
	campaign, cancel := context.WithCancel(context.WithValue(ctx, actorKey{}, a.Actor))
	defer cancel()
	op := a.op(e, history.Lock)
	a.terms++
	op.Value = fmt.Sprintf("%d.%d.%d", a.client, a.number, a.terms)
	opts := a.options(&op)
	op, opts, stop := a.impatient(op, opts, cancel)
	defer stop()
	op.Kind = history.Lock // there is no other way
	h, err := a.attempt(campaign, op, candidacy{e, op.Value}, opts)
	if err != nil {
		a.leads(e)
		return !errors.Is(err, holdfast.ErrClosed)
	}
	t := &tenure{Actor: a.Actor, of: history.Op{Of: op.Of, Name: op.Name}}
	t.add(held{h, op.Plain})
	a.lead(h.Context(), e)
	if a.rng.IntN(4) == 0 {
		t.extend(h.Context())
	}
	t.leave(ctx)
	a.leads(e)
	return true
}

// candidacy is an election as a lock.
type candidacy struct {
	*election.Election
	value string
}

func (c candidacy) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return c.Campaign(ctx, c.value, opts...)
}

// TryLock is not one: a candidate waits.
func (c candidacy) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return c.Campaign(ctx, c.value, opts...)
}

func (a *Candidate) op(e *election.Election, kind history.Kind) history.Op {
	return history.Op{Client: a.client, Actor: a.number, Of: history.Elections, Name: e.Name(), Kind: kind}
}

// lead is the work of a leader.
func (a *Candidate) lead(ctx context.Context, e *election.Election) {
	for range a.rng.IntN(4) {
		Sleep(ctx, a.random(a.Hold))
		a.leads(e)
		if a.rng.IntN(3) == 0 {
			a.look(ctx, e)
		}
	}
}

// leads asks the process whether it leads.
func (a *Candidate) leads(e *election.Election) {
	call := a.rec.Begin(a.op(e, history.Leads))
	is := e.IsLeader()
	call.End(func(o *history.Op) {
		if o.Result = history.Denied; is {
			o.Result = history.OK
		}
	})
}

// look asks the server who leads.
func (a *Candidate) look(ctx context.Context, e *election.Election) {
	call := a.rec.Begin(a.op(e, history.Look))
	l, err := survived(func() (election.Leader, error) { return e.Leader(ctx) })
	call.End(func(o *history.Op) {
		if note(o, err); errors.Is(err, election.ErrNoLeader) {
			o.Result = history.Denied
		}
		o.Seen, o.Token, o.Value = l.Owner, l.Token, l.Value
	})
}

// run has Run campaign and lead, for one term or several. Run does not say as whom, nor until when it may be trusted.
func (a *Candidate) run(ctx context.Context, e *election.Election) bool {
	run, cancel := context.WithCancel(context.WithValue(ctx, actorKey{}, a.Actor))
	defer cancel()
	a.terms++
	t := terms{Candidate: a, e: e, value: fmt.Sprintf("%d.%d.%d", a.client, a.number, a.terms)}
	t.campaign(0)
	err := survive(func() error {
		return e.Run(run, t.value, func(ctx context.Context) error {
			t.begin(ctx)
			a.lead(ctx, e)
			if a.rng.IntN(4) == 0 {
				cancel() // which is how most processes end it
			}
			t.end(context.Cause(ctx))
			return nil
		})
	})
	t.over(err)
	a.leads(e)
	return !errors.Is(err, holdfast.ErrClosed)
}

// terms are those of one Run, and its campaigns.
type terms struct {
	*Candidate
	e     *election.Election
	value string

	token  uint64        // of the last term
	since  int64         // when the campaign began; 0: when it was recorded
	asking *history.Call // a campaign, if one is under way
	resign *history.Call // the end of a term, of which it is not known yet how it went
	at     int64         // when that began
	stop   func()        // waits for who looks out for the end of the term
}

func (t *terms) campaign(since int64) {
	op := t.op(t.e, history.Lock)
	op.Value = t.value
	call := t.rec.Begin(op)
	t.asking, t.since = &call, since
}

// of is an operation of the last term.
func (t *terms) of(kind history.Kind) history.Op {
	op := t.op(t.e, kind)
	op.Token, op.Owner = t.token, fmt.Sprintf("%s%d", history.Unnamed, t.token)
	return op
}

// begin is the beginning of a term.
func (t *terms) begin(ctx context.Context) {
	if t.resign != nil { // it was found to be lost by who resigned
		t.resigned(holdfast.ErrLost)
		t.campaign(t.at)
	}
	t.token, _ = fence.TokenOf(ctx, t.e.Name())
	term := t.of(history.End)
	t.asking.End(func(o *history.Op) {
		o.Owner, o.Token, o.Result = term.Owner, term.Token, history.OK
		if t.since > 0 {
			o.Call = t.since
		}
	})
	t.asking = nil
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		o := term
		if note(&o, context.Cause(ctx)); o.Result == history.Lost || o.Result == history.Closed {
			t.rec.Note(o)
		}
	})
	t.stop = func() {
		if !stop() {
			<-done
		}
	}
}

// end is that of the leader's work. cause is why its context ended, nil if it has not.
func (t *terms) end(cause error) {
	t.stop()
	op := t.of(history.Unlock)
	op.Last, t.at = true, t.Now()
	call := t.rec.Begin(op)
	if t.resign = &call; errors.Is(cause, holdfast.ErrLost) {
		t.resigned(cause)
		t.campaign(0)
	}
}

// resigned says how the end of a term went.
func (t *terms) resigned(err error) {
	t.resign.End(func(o *history.Op) {
		if note(o, err); errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			o.Result = history.Left // and perhaps it did not
		}
	})
	t.resign = nil
}

// over is the end of Run.
func (t *terms) over(err error) {
	if t.resign != nil { // of one who was told to stop Run does not say whether it resigned
		t.resigned(err)
	}
	if t.asking != nil {
		t.asking.End(func(o *history.Op) { note(o, err) })
	}
}
