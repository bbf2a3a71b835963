package fairlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestHoldAtLeast: the lock stays, nobody is handed it before, and the first in the queue gets it then; that one has all of its own
// time too, though it was called by a message whose claim is short.
func TestHoldAtLeast(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	name := uniqueName(t)
	const d, long = 500 * time.Millisecond, time.Hour
	start := time.Now()
	h, err := fairlock.New(newClient(t, rdb, nil), name).Lock(t.Context(), holdfast.HoldAtLeast(d))
	require.NoError(t, err)
	other := fairlock.New(newClient(t, rdb, nil), name)
	got := make(chan *holdfast.Hold, 1)
	go func() {
		next, err := other.Lock(context.Background(), holdfast.HoldAtLeast(long))
		if err != nil {
			t.Error(err)
		}
		got <- next
	}()
	eventually(t, "it has a place", func() bool { return len(queued(t, rdb, name)) == 1 })
	require.NoError(t, h.Unlock(t.Context()))
	s, err := other.State(t.Context())
	require.NoError(t, err)
	if time.Since(start) < d {
		require.Equal(t, h.Owner(), s.Owner)
	}
	next := <-got
	require.NotNil(t, next)
	require.GreaterOrEqual(t, time.Since(start), d)
	require.Greater(t, next.Token(), h.Token())
	require.NoError(t, next.Unlock(t.Context()))
	require.Greater(t, rdb.PTTL(t.Context(), name).Val(), long-time.Minute)
	there, err := other.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, there)
}
