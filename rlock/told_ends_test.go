package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// ends has a hold end that nobody renews, and returns why, as an observer was told of it until the client was closed.
func ends(t *testing.T) (told []error) {
	t.Helper()
	c, err := holdfast.New(redistest.Shared(t).Client(t), &holdfast.Options{Observer: &holdfast.Observer{
		Ended: func(_ context.Context, e holdfast.EndEvent) { told = append(told, e.Reason) }, // one after the other
	}})
	require.NoError(t, err)
	h, err := rlock.New(c, uniqueName(t)).Lock(t.Context(), holdfast.NoRenewal(), holdfast.Lease(100*time.Millisecond))
	require.NoError(t, err)
	require.ErrorIs(t, awaitEnd(t, h), holdfast.ErrLost)
	require.NoError(t, c.Close(t.Context())) // the observer has been told of everything then
	return told
}

// TestObserverHearsOfLoss: an observer is told of the end of a hold that no Unlock made. Control: without that it
// counts the hold for ever.
func TestObserverHearsOfLoss(t *testing.T) {
	told := ends(t)
	require.Len(t, told, 1)
	require.ErrorIs(t, told[0], holdfast.ErrLost)
	defer defence.ToldEnds.Without(t)()
	require.Empty(t, ends(t), "control")
}
