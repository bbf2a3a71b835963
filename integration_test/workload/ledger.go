package workload

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
)

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
