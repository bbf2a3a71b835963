package workload

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/integration_test/history"
)

// Observer is one goroutine that observes elections, each for a while.
type Observer struct{ *Actor }

// NewObserver makes one on a client. Of cfg it uses Name, Think, Wait, Round and Now; it observes for several times
// Wait.
func NewObserver(c *holdfast.Client, cfg Config, rec *history.Recorder, client, number int, rng *rand.Rand) *Observer {
	a := New(cfg, rec, client, number, rng)
	a.c = c
	return &Observer{a}
}

// Run observes until ctx ends or the client is closed.
func (a *Observer) Run(ctx context.Context) { a.again(ctx, a.observe) }

// observe records what one loop is told. It is false when the client was closed.
func (a *Observer) observe(ctx context.Context) bool {
	e := election.New(a.c, a.Name(a.rng))
	op := history.Op{Client: a.client, Actor: a.number, Of: history.Elections, Name: e.Name(), Kind: history.Observe}
	loop, cancel := context.WithTimeout(ctx, a.random(8*a.Wait))
	defer cancel()
	call := a.rec.Begin(op)
	var last error
	err := survive(func() error {
		for l, err := range e.Observe(loop) {
			told := op
			told.Kind, told.Seen, told.Token, told.Value, told.Result = history.Told, l.Owner, l.Token, l.Value, history.OK
			if last = err; err != nil {
				told.Result, told.Error = history.Unknown, err.Error()
			}
			a.rec.Note(told)
		}
		return nil
	})
	call.End(func(o *history.Op) { note(o, err) })
	return !errors.Is(last, holdfast.ErrClosed)
}
