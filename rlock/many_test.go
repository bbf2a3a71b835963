package rlock_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestManyHoldsOfOneOwner: an owner knows each of its locks, however many it has, and none that it
// had.
func TestManyHoldsOfOneOwner(t *testing.T) {
	const n = 100
	c, rdb := shared(t, nil)
	prefix := uniqueName(t)
	ctx := holdfast.WithOwner(t.Context())
	lock := func(i int, opts ...holdfast.Option) *holdfast.Hold {
		h := take(ctx, t, rlock.New(c, prefix+strconv.Itoa(i), opts...).Lock)
		return h
	}
	var holds []*holdfast.Hold
	for range 2 { // the second time they are re-entries
		for i := range n {
			holds = append(holds, lock(i))
		}
	}
	for i, h := range holds {
		require.Equal(t, 1+i/n, h.Count())
		require.Equal(t, holds[0].Owner(), h.Owner())
	}
	for i := len(holds) - 1; i >= 0; i -= 2 {
		require.NoError(t, holds[i].Unlock(ctx))
	}
	for i := len(holds) - 2; i >= 0; i -= 2 {
		require.NoError(t, holds[i].Unlock(ctx))
	}
	for i := range n {
		require.True(t, free(t, rdb, prefix+strconv.Itoa(i)))
		holds[i] = lock(i, holdfast.NoRenewal(), holdfast.Lease(time.Second))
		require.Equal(t, 1, holds[i].Count())
	}
	for i := range n {
		require.ErrorIs(t, awaitEnd(t, holds[i]), holdfast.ErrLost)
	}
	for i := range n {
		require.Equal(t, 1, lock(i).Count(), "after a loss it is a new grant")
	}
}
