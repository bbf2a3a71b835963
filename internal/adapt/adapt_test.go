package adapt_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/adapt"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

var errPaper = errors.New("out of paper")

func TestRun(t *testing.T) {
	c := adaptertest.Client(t)
	l := rlock.New(c, t.Name())
	for _, want := range []error{nil, errPaper} {
		ran, err := adapt.Run(t.Context(), l, func(ctx context.Context) error {
			require.True(t, adaptertest.Taken(t, t.Name()))
			require.NoError(t, ctx.Err())
			return want
		})
		require.True(t, ran)
		require.Equal(t, want, err)
		adaptertest.RequireFree(t, t.Name())
	}
	require.PanicsWithValue(t, "ink", func() {
		_, _ = adapt.Run(t.Context(), l, func(context.Context) error { panic("ink") })
	})
	adaptertest.RequireFree(t, t.Name())
}

// TestRunIsAFreshOwner: what runs under a hold does not re-enter, and is not told to do so.
func TestRunIsAFreshOwner(t *testing.T) {
	l := rlock.New(adaptertest.Client(t), t.Name())
	hold, err := l.Lock(t.Context())
	require.NoError(t, err)
	ran, err := adapt.Run(hold.Context(), l, func(context.Context) error { return nil }, holdfast.Wait(0))
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.False(t, ran)
	require.NotContains(t, err.Error(), "this code path")
	_, err = adapt.Lock(hold.Context(), l, holdfast.Wait(0))
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.NotContains(t, err.Error(), "this code path")
	_, err = l.Lock(t.Context(), holdfast.Wait(0)) // the control
	require.ErrorContains(t, err, "this code path")
	again, err := l.Lock(hold.Context(), holdfast.Wait(0)) // the control
	require.NoError(t, err)
	require.NoError(t, again.Unlock(t.Context()))
	require.NoError(t, hold.Unlock(t.Context()))
}

// TestRunLoss: a job fails by a loss, even if it does not notice.
func TestRunLoss(t *testing.T) {
	l := rlock.New(adaptertest.Client(t), t.Name())
	for _, own := range []error{nil, errPaper} {
		ran, err := adapt.Run(t.Context(), l, func(context.Context) error {
			adaptertest.Lose(t, t.Name())
			return own
		})
		require.True(t, ran)
		require.ErrorIs(t, err, holdfast.ErrLost)
		if own != nil {
			require.ErrorIs(t, err, own)
		}
		adaptertest.GiveBack(t, t.Name())
	}
}

// TestRunClosed: the client gives the lock back when it is closed. A job that goes on has not been alone.
func TestRunClosed(t *testing.T) {
	c := adaptertest.Client(t)
	ran, err := adapt.Run(t.Context(), rlock.New(c, t.Name()), func(context.Context) error {
		require.NoError(t, c.Close(t.Context()))
		require.False(t, adaptertest.Taken(t, t.Name()))
		return nil
	})
	require.True(t, ran)
	require.ErrorIs(t, err, holdfast.ErrClosed)
}

// TestRunUnavailable: a job that is done has not failed because nobody answers to its Unlock.
func TestRunUnavailable(t *testing.T) {
	for name, run := range map[string]func(l holdfast.Locker, job func(context.Context) error) error{
		"Run": func(l holdfast.Locker, job func(context.Context) error) error {
			_, err := adapt.Run(t.Context(), l, job)
			return err
		},
		"control": func(l holdfast.Locker, job func(context.Context) error) error {
			return holdfast.Do(t.Context(), l, job)
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := redistest.Start(t)
			c, err := holdfast.New(srv.Client(t), &holdfast.Options{RetryBudget: 50 * time.Millisecond})
			require.NoError(t, err)
			redistest.CloseAtEnd(t, c)
			err = run(rlock.New(c, "a"), func(context.Context) error {
				srv.Kill()
				return nil
			})
			if name == "Run" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, holdfast.ErrUnavailable)
		})
	}
}

func TestNoLock(t *testing.T) {
	_, err := adapt.Lock(t.Context(), nil)
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	ran, err := adapt.Run(t.Context(), nil, func(context.Context) error { return nil })
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	require.False(t, ran)
}

// TestHolds: the oldest hold of a key is ended first. So the one who lost the lock does not free it for the one who has it now.
func TestHolds(t *testing.T) {
	c := adaptertest.Client(t)
	l := rlock.New(c, t.Name())
	lock := func() *holdfast.Hold {
		h, err := adapt.Lock(t.Context(), l)
		require.NoError(t, err)
		return h
	}
	var holds adapt.Holds[string]
	require.Nil(t, holds.Take("a"))
	require.Nil(t, holds.Oldest("a"))

	first := lock()
	holds.Add("a", first)
	adaptertest.Lose(t, t.Name())
	<-first.Context().Done()
	adaptertest.GiveBack(t, t.Name())
	second := lock()
	holds.Add("a", second)
	holds.Add("b", first)

	require.Same(t, first, holds.Oldest("a"))
	require.ErrorIs(t, holds.Take("a").Unlock(t.Context()), holdfast.ErrLost)
	require.NoError(t, second.Context().Err())
	require.True(t, adaptertest.Taken(t, t.Name()))
	require.Same(t, second, holds.Oldest("a"))
	require.NoError(t, holds.Take("a").Unlock(t.Context()))
	require.Nil(t, holds.Take("a"))

	holds.Add("b", second)
	holds.Remove("b", first)
	holds.Remove("b", first)
	require.Same(t, second, holds.Take("b"))
	require.Nil(t, holds.Take("b"))
}

func TestMain(m *testing.M) { redistest.Main(m) }
