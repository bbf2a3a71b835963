package adaptertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// Work is a job that goes on until its context ends.
type Work struct {
	began chan struct{}
	ended chan error
}

// NewWork makes one that nobody does yet.
func NewWork() *Work { return &Work{began: make(chan struct{}, 10), ended: make(chan error, 10)} }

// Do does the work. It returns nil, as a job that does not notice what its end means.
func (w *Work) Do(ctx context.Context) error {
	w.began <- struct{}{}
	<-ctx.Done()
	w.ended <- context.Cause(ctx)
	return nil
}

// Begun waits until somebody does it.
func (w *Work) Begun(t *testing.T) {
	t.Helper()
	Receive(t, "the job", w.began)
}

// Ended waits until the context of who does it has ended, and returns why.
func (w *Work) Ended(t *testing.T) error {
	t.Helper()
	return Receive(t, "the end of the job's context", w.ended)
}

// Lost waits until somebody does it, has him lose the lock, and demands that he is told.
func (w *Work) Lost(t *testing.T, name string) {
	t.Helper()
	w.Begun(t)
	Lose(t, name)
	require.ErrorIs(t, w.Ended(t), holdfast.ErrLost)
}

// Unreachable makes a participant whose server is gone.
func Unreachable(t *testing.T) *holdfast.Client {
	t.Helper()
	srv := redistest.Start(t)
	c, err := holdfast.New(srv.Client(t), &holdfast.Options{RetryBudget: 50 * time.Millisecond})
	require.NoError(t, err)
	redistest.CloseAtEnd(t, c)
	srv.Kill()
	return c
}
