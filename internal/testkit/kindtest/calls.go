package kindtest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

// Acquire is Lock or TryLock of any kind, or what takes their place: RLock, or some permits.
type Acquire func(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error)

// Lock takes a lock that is free, or about to be, under the context of the test.
func Lock(tb testing.TB, l holdfast.Locker, opts ...holdfast.Option) *holdfast.Hold {
	tb.Helper()
	return Take(tb.Context(), tb, l.Lock, opts...)
}

// Take acquires what is free, or about to be.
func Take(ctx context.Context, tb testing.TB, acquire Acquire, opts ...holdfast.Option) *holdfast.Hold {
	tb.Helper()
	h, err := acquire(ctx, opts...)
	require.NoError(tb, err)
	return h
}

// Unlock gives holds back, in this order.
func Unlock(tb testing.TB, holds ...*holdfast.Hold) {
	tb.Helper()
	for _, h := range holds {
		require.NoError(tb, h.Unlock(context.WithoutCancel(tb.Context())))
	}
}

// Unheard unlocks a hold where the answer may be lost, and returns nil if what it says is right: all is well, or, if
// others have had the lock by then, nobody knows.
func Unheard(ctx context.Context, h *holdfast.Hold) error {
	err := h.Unlock(ctx)
	if errors.Is(err, holdfast.ErrUncertain) && !errors.Is(err, holdfast.ErrUnavailable) {
		return nil
	}
	return err
}

// Ended waits until the context of a hold ends, and returns why.
func Ended(tb testing.TB, h *holdfast.Hold) error {
	tb.Helper()
	select {
	case <-h.Context().Done():
		return context.Cause(h.Context())
	case <-time.After(patience):
		require.FailNow(tb, "the hold's context does not end")
		return nil
	}
}

// Pending is an acquisition in a goroutine.
type Pending struct {
	tb   testing.TB
	done chan struct{}
	hold *holdfast.Hold
	err  error
}

// Begin acquires in a goroutine, which ends with the context.
func Begin(ctx context.Context, tb testing.TB, acquire Acquire, opts ...holdfast.Option) *Pending {
	p := &Pending{tb: tb, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.hold, p.err = acquire(ctx, opts...)
	}()
	return p
}

// Over reports whether there is a result, without waiting for it.
func (p *Pending) Over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Result waits for what came of it.
func (p *Pending) Result() (*holdfast.Hold, error) {
	p.tb.Helper()
	select {
	case <-p.done:
		return p.hold, p.err
	case <-time.After(patience):
		require.FailNow(p.tb, "it waits still")
		return nil, nil
	}
}

// Hold waits for the grant.
func (p *Pending) Hold() *holdfast.Hold {
	p.tb.Helper()
	h, err := p.Result()
	require.NoError(p.tb, err)
	return h
}

// Err waits for the error.
func (p *Pending) Err() error {
	p.tb.Helper()
	h, err := p.Result()
	require.Nil(p.tb, h, "granted")
	return err
}

// First waits until one of several is over, and returns which.
func First(tb testing.TB, calls ...*Pending) (i int) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		i = slices.IndexFunc(calls, (*Pending).Over)
		return i >= 0
	}, patience, time.Millisecond, "none of them gets it")
	return i
}

// InTurn lets all who wait have the lock, in whatever order they come.
func InTurn(tb testing.TB, inside func(h *holdfast.Hold), calls ...*Pending) {
	tb.Helper()
	for len(calls) > 0 {
		i := First(tb, calls...)
		h := calls[i].Hold()
		inside(h)
		Unlock(tb, h)
		calls = slices.Delete(calls, i, i+1)
	}
}

// Refused demands that somebody else has what is asked for, and returns what the caller is told.
func Refused(ctx context.Context, tb testing.TB, acquire Acquire, opts ...holdfast.Option) error {
	tb.Helper()
	_, err := acquire(ctx, opts...)
	require.ErrorIs(tb, err, holdfast.ErrNotAcquired)
	return err
}
