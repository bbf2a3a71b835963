package remote

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLimit: it ends at its time for everybody who waits, whether the parent can end or not, and says that the budget is
// spent; unless the parent ends first.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parents := map[string]func() (context.Context, context.CancelFunc){
			"endless":     func() (context.Context, context.CancelFunc) { return context.Background(), func() {} },
			"cancellable": func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) },
			"later": func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(t.Context(), 2*time.Second)
			},
		}
		for name, parent := range parents {
			ctx, cancel := parent()
			l := &limit{Context: ctx, end: time.Now().Add(time.Second)}
			select {
			case <-l.Done(): // a look, which costs nothing
				t.Fatal(name)
			default:
			}
			require.Nil(t, l.timed, name)
			require.NoError(t, l.Err(), name)
			require.False(t, isSpent(l), name)
			begun := time.Now()
			<-l.Done()
			require.Equal(t, time.Second, time.Since(begun), name)
			require.ErrorIs(t, l.Err(), context.DeadlineExceeded, name)
			require.True(t, isSpent(l), name)
			l.stop()
			cancel()
		}

		// A context that a hook derives ends with it, too.
		l := &limit{Context: context.Background(), end: time.Now().Add(time.Second)}
		derived, cancel := context.WithTimeout(l, time.Hour)
		begun := time.Now()
		<-derived.Done()
		require.Equal(t, time.Second, time.Since(begun))
		cancel()
		l.stop()

		// Who waits at the first look, as a hook may, is let go with the operation, and so is who comes later.
		l = &limit{Context: context.Background(), end: time.Now().Add(time.Hour)}
		first := l.Done()
		l.stop()
		<-first
		<-l.Done()
		require.ErrorIs(t, l.Err(), context.Canceled)

		// The parent ends first.
		cancelled, stop := context.WithCancel(t.Context())
		defer stop()
		sooner, done := context.WithTimeout(t.Context(), time.Millisecond)
		defer done()
		for _, ctx := range []context.Context{cancelled, sooner} {
			l := &limit{Context: ctx, end: time.Now().Add(time.Second)}
			time.AfterFunc(time.Millisecond, stop)
			<-l.Done()
			require.Equal(t, ctx.Err(), l.Err())
			require.False(t, isSpent(l))
			<-l.Done()
			time.Sleep(time.Hour)
			require.False(t, isSpent(l))
			l.stop()
		}
	})
}
