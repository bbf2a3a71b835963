package workload

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/integration_test/history"
)

// Candidate is one goroutine that wants to lead: it campaigns, or has Run do so, leads for a while, asks
// who leads, and resigns.
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
		a.pause(ctx, a.random(a.Hold))
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
