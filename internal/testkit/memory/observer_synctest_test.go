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
