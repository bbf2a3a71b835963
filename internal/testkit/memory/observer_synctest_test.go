package memory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/memory"
)

// TestHeldUntilItIsReleased: what a release takes does not count as held, whatever the lock was asked for with, nor
// does it where a hold inside another ends.
func TestHeldUntilItIsReleased(t *testing.T) {
	for name, opts := range map[string][]holdfast.Option{
		"as usual": nil, "not handed on": {holdfast.NoHandoff()}, "not renewed": {holdfast.NoRenewal()},
		"extended": {holdfast.Lease(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended []time.Duration
				c, err := memory.NewClient(&holdfast.Options{Observer: &holdfast.Observer{
					Ended: func(_ context.Context, e holdfast.EndEvent) { ended = append(ended, e.Held) },
				}})
				require.NoError(t, err)
				m := memory.New(c, &memory.Server{ReleaseTakes: 2 * time.Second}, "a")
				h, err := m.Lock(t.Context(), opts...)
				require.NoError(t, err)
				time.Sleep(time.Second)
				inner, err := m.Lock(h.Context(), opts...)
				require.NoError(t, err)
				if name == "extended" {
					require.NoError(t, h.Extend(t.Context(), time.Hour))
				}
				require.NoError(t, inner.Unlock(t.Context()))
				require.NoError(t, h.Unlock(t.Context()))
				require.NoError(t, c.Close(t.Context()))
				require.Equal(t, []time.Duration{0, time.Second}, ended)
			})
		})
	}
}

// TestRenewedWhileAnObserverBlocks: for an hour of an observer that blocks at the first renewal, a hold is
// renewed, and one that is not ends in the moment in which its lease does. Close waits for the observer
// until its context ends.
func TestRenewedWhileAnObserverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, server := make(chan bool), &memory.Server{}
		block := func() { <-release }
		c, err := memory.NewClient(&holdfast.Options{Observer: &holdfast.Observer{
			Ended:   func(context.Context, holdfast.EndEvent) { block() },
			Renewed: func(holdfast.RenewalEvent) { block() },
			Sent:    func(holdfast.ScriptEvent) { block() },
		}})
		require.NoError(t, err)
		renewed, err := memory.New(c, server, "a").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.NoError(t, renewed.Context().Err())
		plain, err := memory.New(c, server, "b").Lock(t.Context(), holdfast.NoRenewal(), holdfast.Lease(time.Minute))
		require.NoError(t, err)
		end := plain.Deadline()
		<-plain.Context().Done()
		require.Equal(t, end, time.Now())
		require.NoError(t, renewed.Context().Err())

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		require.ErrorIs(t, c.Close(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(begun))
		close(release)
		require.ErrorIs(t, c.Close(t.Context()), context.DeadlineExceeded, "as the first one")
		synctest.Wait()
	})
}
