package rlock_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// blocking is a log that blocks at its first record, as one whose sink is full.
type blocking struct {
	slog.Handler
	once     sync.Once
	blocked  chan struct{} // closed when it does
	released chan struct{}
}

func newBlocking(t *testing.T) *blocking {
	t.Helper()
	return &blocking{Handler: slog.NewTextHandler(t.Output(), nil), blocked: make(chan struct{}),
		released: make(chan struct{})}
}

func (b *blocking) Handle(context.Context, slog.Record) error {
	b.once.Do(func() {
		close(b.blocked)
		<-b.released
	})
	return nil
}

// named is a hold that knows its lock.
type named struct {
	*holdfast.Hold
	name string
}

// threeHolds takes a plain lease that ends soon, one that ends a little later and a renewed one,
// and returns the latter two when whoever is told of the loss of the first blocks.
func threeHolds(t *testing.T, c *holdfast.Client, blocked <-chan struct{}) (plain, renewed named) {
	t.Helper()
	lock := func(opts ...holdfast.Option) named {
		m := rlock.New(c, uniqueName(t), opts...)
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		return named{h, m.Name()}
	}
	renewed = lock(holdfast.Lease(3 * time.Second))
	first := lock(holdfast.NoRenewal(), holdfast.Lease(time.Second))
	plain = lock(holdfast.NoRenewal(), holdfast.Lease(3*time.Second))
	require.ErrorIs(t, awaitEnd(t, first.Hold), holdfast.ErrLost)
	<-blocked
	return plain, renewed
}

// TestBlockedLogger: the log of a loss blocks. The other holds are told of theirs, and renewed, all
// the same.
func TestBlockedLogger(t *testing.T) {
	log := newBlocking(t)
	defer close(log.released)
	c, _ := shared(t, &holdfast.Options{Logger: slog.New(log)})
	plain, renewed := threeHolds(t, c, log.blocked)
	end := renewed.Deadline().Add(2 * time.Second)
	require.ErrorIs(t, awaitEnd(t, plain.Hold), holdfast.ErrLost)
	eventually(t, "renewed", func() bool { return renewed.Deadline().After(end) })
	require.NoError(t, renewed.Unlock(t.Context()))
}

// TestBlockedLoggerControl: the same where the watchdog waits for the log. Both locks are granted
// to others meanwhile, and nobody is told.
func TestBlockedLoggerControl(t *testing.T) {
	defer defence.Glance.Without(t)() // else they find out when they are asked
	restore := defence.Aside.Without(t)
	log := newBlocking(t)
	c, _ := shared(t, &holdfast.Options{Logger: slog.New(log)})
	plain, renewed := threeHolds(t, c, log.blocked)
	othersGet(t, plain, renewed)
	restore()
	close(log.released)
	require.ErrorIs(t, awaitEnd(t, plain.Hold), holdfast.ErrLost)
	require.ErrorIs(t, awaitEnd(t, renewed.Hold), holdfast.ErrLost)
}

// othersGet has others get the locks, of which the holders must not have been told.
func othersGet(t *testing.T, holds ...named) {
	t.Helper()
	other, _ := shared(t, nil)
	for _, h := range holds {
		_, err := rlock.New(other, h.name).Lock(t.Context())
		require.NoError(t, err)
		select {
		case <-h.Context().Done():
			t.Error("told, although who is told blocks")
		default:
		}
	}
}

// TestCloseWithBlockedLogger: Close waits for a log that blocks until its context ends, and not
// longer.
func TestCloseWithBlockedLogger(t *testing.T) {
	log := newBlocking(t)
	c, err := holdfast.New(redistest.Shared(t).Client(t), &holdfast.Options{Logger: slog.New(log)})
	require.NoError(t, err)
	_, renewed := threeHolds(t, c, log.blocked)
	ctx, cancel := context.WithCancel(t.Context())
	closed := make(chan error)
	go func() { closed <- c.Close(ctx) }()
	require.ErrorIs(t, awaitEnd(t, renewed.Hold), holdfast.ErrClosed)
	cancel()
	require.ErrorIs(t, <-closed, context.Canceled)
	close(log.released)
	eventually(t, "what Close left to the background has ended", func() bool {
		stacks := make([]byte, 4<<20)
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "remote.(*undoer)")
	})
}

// TestPanickingLogger: a log that panics harms nobody.
func TestPanickingLogger(t *testing.T) {
	c, _ := shared(t, &holdfast.Options{Logger: slog.New(panicking{slog.DiscardHandler})})
	for range 2 {
		h, err := rlock.New(c, uniqueName(t)).Lock(t.Context(), holdfast.NoRenewal(), holdfast.Lease(time.Second))
		require.NoError(t, err)
		require.ErrorIs(t, awaitEnd(t, h), holdfast.ErrLost)
	}
}

type panicking struct{ slog.Handler }

func (panicking) Enabled(context.Context, slog.Level) bool { panic("logger") }
