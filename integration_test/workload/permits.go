package workload

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/semaphore"
)

// Taker is one goroutine that uses semaphores: it takes, tries and holds permits, asks how many there are, and sets that.
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
		Sleep(h.Context(), a.random(a.Hold))
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
	op := history.Op{Client: a.client, Actor: a.number, Of: history.Permits, Name: m.Name(), Kind: history.Set, Total: n}
	a.record(op, func() error { return m.SetPermits(ctx, n) })
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

// Census records how many permits there are and how many are free. Its op says of whom, and if all must be free, at the end.
func Census(ctx context.Context, rec *history.Recorder, m *semaphore.Semaphore, op history.Op) {
	op.Of, op.Name, op.Kind = history.Permits, m.Name(), history.State
	call := rec.Begin(op)
	state, err := survived(func() (semaphore.State, error) { return m.State(ctx) })
	call.End(func(o *history.Op) {
		note(o, err)
		o.Depth, o.Total = state.Free, state.Permits
	})
}

// Ledger observes a client in a storm: in the end each call has an answer and each grant an end, as many as callers saw.
type Ledger struct {
	kindtest.Witness
	calls, grants atomic.Int64 // that were counted by callers
	all           atomic.Bool  // every call of the client is counted
}

// Count makes the ledger count what callers see of the locks that a function makes. Where some locks
// of a client are counted, all must be. Nobody may hand in bad arguments: no observer hears of those.
func (l *Ledger) Count(of func(name string) Locker) func(name string) Locker {
	l.all.Store(true)
	return func(name string) Locker { return counted{of(name), l} }
}

// counted is a lock whose calls are counted.
type counted struct {
	Locker
	ledger *Ledger
}

func (c counted) Lock(ctx context.Context, opts ...holdfast.Option) (h *holdfast.Hold, err error) {
	defer func() { c.ledger.count(h, err) }() // also if a hook of go-redis panics
	return c.Locker.Lock(ctx, opts...)
}

func (c counted) TryLock(ctx context.Context, opts ...holdfast.Option) (h *holdfast.Hold, err error) {
	defer func() { c.ledger.count(h, err) }()
	return c.Locker.TryLock(ctx, opts...)
}

func (l *Ledger) count(h *holdfast.Hold, err error) {
	l.calls.Add(1)
	if h != nil && err == nil {
		l.grants.Add(1)
	}
}

// Settle is what the ledger has against a closed client whose calls have returned: the last callbacks may take a while.
func (l *Ledger) Settle(patience time.Duration) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		err := l.balance()
		if err == nil {
			return nil
		}
		select {
		case <-late.C:
			return fmt.Errorf("the observer: %w", err)
		case <-look.C:
		}
	}
}

// balance is what is wrong at this moment.
func (l *Ledger) balance() error {
	if err := l.Wrong(); err != nil || !l.all.Load() {
		return err
	}
	heard, granted := 0, 0
	for _, c := range l.Calls() {
		heard++
		if c.Granted != nil {
			granted++
		}
	}
	if calls, grants := int(l.calls.Load()), int(l.grants.Load()); calls != heard || grants != granted {
		return fmt.Errorf("callers have seen %d calls and %d grants, and %d and %d were told", calls, grants, heard, granted)
	}
	return nil
}

// Counter is one goroutine of latches: it sets and counts them down, waits for them, asks how much is left, and deletes them.
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
