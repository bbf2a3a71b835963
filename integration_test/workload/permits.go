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

// Ledger is the observer of a client in a storm. At the end each call has one answer and each grant
// one end, and there are as many of each as the callers have seen themselves.
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

// Settle is for a client that was closed, whose calls have all returned. It is what the ledger has
// against the client: what is told aside may arrive for a while.
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
