package election_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestObserved: campaigns are waits, and terms are holds.
func TestObserved(t *testing.T) {
	var w kindtest.Witness
	c, err := holdfast.New(redistest.Shared(t).Client(t), &holdfast.Options{Observer: w.Observer()})
	require.NoError(t, err)
	e := election.New(c, t.Name())
	term, err := e.Campaign(t.Context(), "one")
	require.NoError(t, err)
	_, err = e.Campaign(t.Context(), "two", holdfast.Wait(10*time.Millisecond))
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.NoError(t, term.Unlock(t.Context()))
	_, err = e.Campaign(t.Context(), "three")
	require.NoError(t, err)
	require.NoError(t, c.Close(context.Background()))
	require.NoError(t, w.Wrong())
	calls := w.Calls()
	require.Len(t, calls, 3)
	require.Equal(t, "election", calls[0].Wait.Kind)
	require.ErrorIs(t, calls[0].Ended.Reason, holdfast.ErrReleased)
	require.ErrorIs(t, calls[1].Refused.Err, holdfast.ErrNotAcquired)
	require.ErrorIs(t, calls[2].Ended.Reason, holdfast.ErrClosed)
}
