package rlock_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/rlock"
)

// stuck returns two holds of one grant whose time is over, and whose watchdog does not run, as in a
// process that has only just gone on.
func stuck(t *testing.T) (h, inner *holdfast.Hold) {
	t.Helper()
	restore := defence.Aside.Without(t) // so that a log stops the watchdog
	log := newBlocking(t)
	c, _ := shared(t, &holdfast.Options{Logger: slog.New(log)})
	t.Cleanup(func() { close(log.released) }) // before the client is closed
	m := rlock.New(c, uniqueName(t), holdfast.NoRenewal(), holdfast.Lease(3*time.Second))
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	inner, err = m.Lock(h.Context())
	require.NoError(t, err)
	require.NoError(t, inner.Context().Err())
	_, err = rlock.New(c, uniqueName(t)).Lock(t.Context(), holdfast.NoRenewal(), holdfast.Lease(time.Second))
	require.NoError(t, err)
	<-log.blocked
	restore()
	eventually(t, "the deadline", func() bool { return time.Now().After(h.Deadline()) })
	return h, inner
}

// TestContextLooks: after its deadline a hold's context does not look alive, although nobody has
// ended it, whichever way it is asked. The hold knows.
func TestContextLooks(t *testing.T) {
	for name, ask := range map[string]func(t *testing.T, ctx context.Context){
		"Err": func(t *testing.T, ctx context.Context) { require.ErrorIs(t, ctx.Err(), context.Canceled) },
		"Done": func(t *testing.T, ctx context.Context) {
			select {
			case <-ctx.Done():
			default:
				t.Error("lives")
			}
		},
		"Cause": func(t *testing.T, ctx context.Context) {
			require.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost)
		},
		"derived": func(t *testing.T, ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			require.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost)
		},
		"with a value": func(t *testing.T, ctx context.Context) {
			require.ErrorIs(t, context.WithValue(ctx, t, 0).Err(), context.Canceled)
		},
		"a first one": func(t *testing.T, ctx context.Context) {
			require.ErrorIs(t, holdfast.WithOwner(ctx).Err(), context.Canceled)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, inner := stuck(t)
			ask(t, h.Context())
			require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrLost)
			require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
			require.ErrorIs(t, context.Cause(inner.Context()), holdfast.ErrLost)
			require.ErrorIs(t, inner.Unlock(t.Context()), holdfast.ErrLost)
		})
	}
	t.Run("unlock of the inner one", func(t *testing.T) { // which asks the outer one, whose end is that of both
		h, inner := stuck(t)
		require.ErrorIs(t, inner.Unlock(t.Context()), holdfast.ErrLost)
		require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrLost)
	})
}

// TestContextLooksControl: without the look it lives.
func TestContextLooksControl(t *testing.T) {
	defer defence.Glance.Without(t)()
	h, _ := stuck(t)
	require.NoError(t, h.Context().Err())
	require.NoError(t, context.Cause(h.Context()))
}

// TestContextFamily: contexts derived from a hold's end with it and for its reason, and none costs
// a goroutine.
func TestContextFamily(t *testing.T) {
	const n = 1000
	c, _ := shared(t, nil)
	h, err := rlock.New(c, uniqueName(t)).Lock(t.Context())
	require.NoError(t, err)
	ctx := h.Context()
	before := runtime.NumGoroutine()
	var children []context.Context
	called := make(chan struct{}, n)
	for range n {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		timed, cancel := context.WithTimeout(child, time.Hour)
		defer cancel()
		own, cancelCause := context.WithCancelCause(context.WithValue(ctx, t, 0))
		defer cancelCause(nil)
		defer context.AfterFunc(ctx, func() { called <- struct{}{} })()
		children = append(children, child, timed, own)
	}
	require.Less(t, runtime.NumGoroutine(), before+n/2)
	require.NoError(t, context.Cause(children[1]))
	require.NoError(t, h.Unlock(t.Context()))
	for _, child := range children {
		require.ErrorIs(t, child.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(child), holdfast.ErrReleased)
	}
	for range n {
		<-called
	}
	free := context.WithoutCancel(ctx)
	require.NoError(t, free.Err())
	require.NoError(t, context.Cause(free))
}

// TestContextParents: the end of the Lock call's context is the hold's context's, with its cause,
// whatever kind of context it was.
func TestContextParents(t *testing.T) {
	c, _ := shared(t, nil)
	own, cancel := context.WithCancelCause(t.Context())
	for name, parent := range map[string]context.Context{"of package context": own, "a user's": wrapped{own}} {
		h, err := rlock.New(c, uniqueName(t)).Lock(parent)
		require.NoError(t, err, name)
		defer func() {
			require.ErrorIs(t, awaitEnd(t, h), errUser, name)
			require.NoError(t, h.Unlock(t.Context()), name)
		}()
		require.NoError(t, h.Context().Err(), name)
	}
	cancel(errUser)
}

// wrapped is a context that package context does not know.
var errUser = errors.New("the user's reason")

type wrapped struct{ context.Context }

func (w wrapped) Done() <-chan struct{} { return w.Context.Done() }

// BenchmarkContextErr is what a look at the clock costs who asks a hold's context.
func BenchmarkContextErr(b *testing.B) {
	c, _ := shared(b, nil)
	h, err := rlock.New(c, uniqueName(b)).Lock(b.Context())
	require.NoError(b, err)
	ctx := h.Context()
	for b.Loop() {
		_ = ctx.Err()
	}
	require.NoError(b, h.Unlock(context.Background()))
}
