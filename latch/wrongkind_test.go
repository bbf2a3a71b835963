package latch_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/semaphore"
)

// TestLatchOrSemaphore: a name is one of them, whichever came first, until that one has gone. The other is refused
// and changes nothing.
func TestLatchOrSemaphore(t *testing.T) {
	l := newLab(t)
	c := newClient(t, redistest.Shared(t).Client(t), nil)
	m, s := latch.New(c, l.name), semaphore.New(c, l.name, 3)
	refused := func(as string, calls map[string]func(context.Context) error) {
		before := l.rdb.Get(t.Context(), l.name).Val()
		for what, call := range calls {
			err := call(t.Context())
			require.ErrorContains(t, err, "is a "+as, what)
			require.ErrorContains(t, err, "choose another name", what)
			require.NotErrorIs(t, err, holdfast.ErrNotAcquired, what)
		}
		require.Equal(t, before, l.rdb.Get(t.Context(), l.name).Val())
	}
	ofLatch := map[string]func(context.Context) error{
		"set":    func(ctx context.Context) error { _, err := m.Set(ctx, 2); return err },
		"count":  func(ctx context.Context) error { _, err := m.CountDown(ctx); return err },
		"look":   func(ctx context.Context) error { _, err := m.Count(ctx); return err },
		"wait":   func(ctx context.Context) error { return m.Wait(ctx) },
		"delete": func(ctx context.Context) error { _, err := m.Delete(ctx); return err },
	}
	ofSemaphore := map[string]func(context.Context) error{
		"try":   func(ctx context.Context) error { _, err := s.TryAcquire(ctx, 1); return err },
		"lock":  func(ctx context.Context) error { _, err := s.Lock(ctx); return err },
		"set":   func(ctx context.Context) error { return s.SetPermits(ctx, 9) },
		"state": func(ctx context.Context) error { _, err := s.State(ctx); return err },
	}
	set(t, m, 2)
	refused("latch", ofSemaphore)
	count(t, m, 1)
	refused("latch", ofSemaphore)
	count(t, m, 0)
	h, err := s.TryAcquire(t.Context(), 1)
	require.NoError(t, err)
	refused("semaphore", ofLatch)
	require.NoError(t, h.Unlock(t.Context()))
	refused("semaphore", ofLatch)
	require.NoError(t, l.rdb.Del(t.Context(), l.name, "{"+l.name+"}:timeout").Err())
	set(t, m, 1)
	refused("latch", ofSemaphore)
	count(t, m, 0)
}
