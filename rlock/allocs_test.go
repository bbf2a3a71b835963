package rlock_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// mostAllocs is how many allocations a free Lock and its Unlock may make together, under a context that can be cancelled. Ten
// of them are go-redis's, for two commands. The race detector adds some, because a sync.Pool then drops what it is given at random.
const mostAllocs = 22

// TestFreePairAllocates: a free Lock and its Unlock stay as cheap as they are. The control: a context with a timer is seen.
func TestFreePairAllocates(t *testing.T) {
	m := rlock.New(newClient(t, redistest.Shared(t).Client(t), nil), uniqueName(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pair := func(opts ...holdfast.Option) float64 {
		least := math.Inf(1)
		for range 10 { // an answer that is late on a busy machine costs a goroutine
			least = min(least, testing.AllocsPerRun(50, func() {
				h, err := m.Lock(ctx, opts...)
				require.NoError(t, err)
				require.NoError(t, h.Unlock(ctx))
			}))
		}
		return least
	}
	allocs := pair()
	require.LessOrEqual(t, allocs, float64(mostAllocs))
	require.Greater(t, pair(holdfast.Wait(patience)), allocs)
}
