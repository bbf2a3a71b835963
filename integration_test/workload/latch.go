package workload

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/latch"
)

// Counter is one goroutine that uses latches: it sets them, counts them down, waits for them, asks how
// much is left, and takes them away.
type Counter struct{ *Actor }

// Run does one thing after the other until ctx ends or the client is closed.
func (a *Counter) Run(ctx context.Context) { a.again(ctx, a.round) }

func (a *Counter) round(ctx context.Context) bool {
	var own []holdfast.Option
	if a.Lasts > 0 {
		own = append(own, holdfast.Lease(a.Lasts))
	}
	l := latch.New(a.c, a.Name(a.rng), own...)
	switch chance := a.rng.IntN(16); {
	case a.Hurry > 0: // and others open it
	case chance < 2:
		n := 1 + a.rng.IntN(4)
		return a.do(l, history.Op{Kind: history.Set, Depth: n}, func(o *history.Op) error {
			ok, err := l.Set(ctx, n)
			return saysNo(o, ok, err)
		})
	case chance < 7:
		return a.countDown(ctx, l)
	case chance < 9:
		return a.do(l, history.Op{Kind: history.Look}, func(o *history.Op) (err error) {
			o.Depth, err = l.Count(ctx)
			return err
		})
	case chance < 10 && a.rng.IntN(2) == 0:
		return a.do(l, history.Op{Kind: history.Delete}, func(o *history.Op) error {
			ok, err := l.Delete(ctx)
			return saysNo(o, ok, err)
		})
	}
	return a.wait(ctx, l)
}

func (a *Counter) countDown(ctx context.Context, l *latch.Latch) bool {
	return a.do(l, history.Op{Kind: history.CountDown}, func(o *history.Op) (err error) {
		o.Depth, err = l.CountDown(ctx)
		return err
	})
}

// wait waits for a latch, for a while or until it is cancelled.
func (a *Counter) wait(ctx context.Context, l *latch.Latch) bool {
	op, opts := history.Op{Kind: history.Wait}, []holdfast.Option{holdfast.Wait(a.Patience)}
	if a.Hurry > 0 {
		short, cancel := context.WithCancel(ctx)
		defer cancel()
		op, opts, stop := a.hurried(op, opts, cancel)
		defer stop()
		op.Kind = history.Wait // there is no other way
		return a.do(l, op, func(*history.Op) error { return l.Wait(short, opts...) })
	}
	switch a.rng.IntN(8) {
	case 0:
		opts = []holdfast.Option{holdfast.Wait(0)}
	case 1:
		opts = []holdfast.Option{holdfast.Wait(a.random(a.Wait))}
	case 2:
		short, cancel := context.WithTimeout(ctx, a.random(a.Wait))
		defer cancel()
		ctx = short
	}
	return a.do(l, op, func(*history.Op) error { return l.Wait(ctx, opts...) })
}

// saysNo has a result say that nothing was changed.
func saysNo(o *history.Op, ok bool, err error) error {
	if err == nil && !ok {
		o.Result = history.Denied
	}
	return err
}

// do records an operation. It is false when the client was closed.
func (a *Counter) do(l *latch.Latch, op history.Op, act func(*history.Op) error) bool {
	op.Client, op.Actor, op.Of, op.Name = a.client, a.number, history.Latches, l.Name()
	call := a.rec.Begin(op)
	var said history.Op
	err := survive(func() error { return act(&said) })
	call.End(func(o *history.Op) {
		note(o, err)
		switch {
		case err == nil && said.Result != "":
			o.Result = said.Result
		case err == nil && o.Kind != history.Set:
			o.Depth = said.Depth
		case err != nil && o.Kind == history.Wait && o.Result == history.Unknown:
			o.Result = history.Left
		}
	})
	return !errors.Is(err, holdfast.ErrClosed)
}
