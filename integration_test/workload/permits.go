package workload

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/semaphore"
)

// Taker is one goroutine that uses semaphores: it takes some permits or tries to, holds them, asks how
// many there are, and sets their number.
type Taker struct {
	*Actor
	grants int
}

// Run does rounds until ctx ends or the client is closed. What is taken then is given back.
func (a *Taker) Run(ctx context.Context) { a.again(ctx, a.round) }

// some is a semaphore as a lock: so many of its permits.
type some struct {
	*semaphore.Semaphore
	n int
}

func (s some) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return s.Acquire(ctx, s.n, opts...)
}

func (s some) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return s.TryAcquire(ctx, s.n, opts...)
}

func (a *Taker) round(ctx context.Context) bool {
	m := semaphore.New(a.c, a.Name(a.rng), a.Permits)
	switch a.rng.IntN(12) {
	case 0:
		a.set(ctx, m)
		return true
	case 1:
		Census(ctx, a.rec, m, history.Op{Client: a.client, Actor: a.number})
		return true
	}
	n := 1
	if a.rng.IntN(2) == 0 {
		n += a.rng.IntN(a.Permits)
	}
	if a.rng.IntN(16) == 0 {
		n = a.Permits + 1
	}
	lockCtx, cancel := context.WithCancel(context.WithValue(ctx, actorKey{}, a.Actor))
	defer cancel()
	a.grants++
	op := history.Op{Of: history.Permits, Name: m.Name(), Kind: history.Lock, Grant: a.grants, Total: n}
	opts := a.options(&op)
	op, opts, stop := a.impatient(op, opts, cancel)
	h, err := a.attempt(lockCtx, op, some{m, n}, opts)
	stop()
	if err != nil {
		return !errors.Is(err, holdfast.ErrClosed)
	}
	t := &tenure{Actor: a.Actor, of: history.Op{Of: op.Of, Name: op.Name, Grant: op.Grant}}
	t.add(held{h, op.Plain})
	for range a.rng.IntN(3) {
		a.pause(h.Context(), a.random(a.Hold))
		if a.rng.IntN(4) == 0 {
			t.extend(h.Context())
		}
		a.look(t, m)
	}
	t.leave(ctx)
	return true
}

// set sets how many permits there are.
func (a *Taker) set(ctx context.Context, m *semaphore.Semaphore) {
	if len(a.Sets) == 0 {
		return
	}
	n := a.Sets[a.rng.IntN(len(a.Sets))]
	call := a.rec.Begin(history.Op{Client: a.client, Actor: a.number, Of: history.Permits, Name: m.Name(), Kind: history.Set,
		Total: n})
	err := survive(func() error { return m.SetPermits(ctx, n) })
	call.End(func(o *history.Op) { note(o, err) })
}

// look asks the server what the holder has. The answer counts as that of a state of other locks does.
func (a *Taker) look(t *tenure, m *semaphore.Semaphore) {
	h := t.holds[0]
	call := a.rec.Begin(t.op(history.State, h))
	state, err := survived(func() (semaphore.State, error) { return m.State(h.Context()) })
	call.End(func(o *history.Op) {
		note(o, err)
		o.Total = state.Permits
		for _, other := range state.Holders {
			if other.Owner == o.Owner {
				o.Seen, o.Depth, o.Left = other.Owner, other.Count, int64(other.Remaining)
			}
		}
		if h.Context().Err() != nil || !time.Now().Before(h.Deadline()) {
			o.Result = history.Unknown
		}
	})
}

// Census asks how many permits there are, and how many of them are free, and records it. Its op says of
// whom, and whether it is the last look, at which all are to be free.
func Census(ctx context.Context, rec *history.Recorder, m *semaphore.Semaphore, op history.Op) {
	op.Of, op.Name, op.Kind = history.Permits, m.Name(), history.State
	call := rec.Begin(op)
	state, err := survived(func() (semaphore.State, error) { return m.State(ctx) })
	call.End(func(o *history.Op) {
		note(o, err)
		o.Depth, o.Total = state.Free, state.Permits
	})
}
