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
	term := lead(t, e, "one")
	kindtest.Refused(t.Context(), t, of(e, "two"), holdfast.Wait(10*time.Millisecond))
	unlock(t, term)
	_ = lead(t, e, "three")
	require.NoError(t, c.Close(context.Background()))
	require.NoError(t, w.Wrong())
	calls := w.Calls()
	require.Len(t, calls, 3)
	require.Equal(t, "election", calls[0].Wait.Kind)
	require.ErrorIs(t, calls[0].Ended.Reason, holdfast.ErrReleased)
	require.ErrorIs(t, calls[1].Refused.Err, holdfast.ErrNotAcquired)
	require.ErrorIs(t, calls[2].Ended.Reason, holdfast.ErrClosed)
}
