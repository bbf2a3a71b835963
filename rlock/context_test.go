package rlock_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestContextFamily: contexts derived from a hold's end with it and for its reason, and none costs
// a goroutine.
func TestContextFamily(t *testing.T) {
	const n = 1000
	c, _ := shared(t, nil)
	h := lock(t, rlock.New(c, uniqueName(t)))
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
	unlock(t, h)
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
