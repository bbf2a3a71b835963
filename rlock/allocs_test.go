package rlock_test

import (
	"context"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// mostAllocs is how many allocations a free Lock and its Unlock may make together, under a context that can be cancelled. Ten
// of them are go-redis's, for two commands. The race detector adds some, because a sync.Pool then drops what it is given at random.
const mostAllocs = 22

// mostBytes is how many bytes that are at most: 2 320 were measured, with up to 5 more in some runs. It is below the next size of
// the greatest piece, 64 bytes more. About 870 of them are go-redis's, if it sends two such commands by itself.
const mostBytes = 2380

// TestFreePairAllocates: a free Lock and its Unlock stay as cheap as they are, with a label as without. The control: a context
// with a timer is seen.
func TestFreePairAllocates(t *testing.T) {
	for _, label := range []string{holdfast.NoLabel, "label"} {
		m := rlock.New(newClient(t, redistest.Shared(t).Client(t), &holdfast.Options{Label: label}), uniqueName(t))
		allocs, size := pairCost(t, m)
		t.Logf("proof: a free pair, label %q: %v allocations, %.0f bytes", label, allocs, size)
		require.LessOrEqual(t, allocs, float64(mostAllocs), label)
		require.LessOrEqual(t, size, float64(mostBytes), label)
		more, larger := pairCost(t, m, holdfast.Wait(patience))
		require.Greater(t, more, allocs)
		require.Greater(t, larger, size)
	}
}

// pairCost is how much a Lock and its Unlock allocate.
func pairCost(t *testing.T, m *rlock.Mutex, opts ...holdfast.Option) (allocs, size float64) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	allocs, size = math.Inf(1), math.Inf(1)
	var before, after runtime.MemStats
	const runs = 50
	for range 10 { // an answer that is late on a busy machine costs a goroutine
		runtime.ReadMemStats(&before)
		allocs = min(allocs, testing.AllocsPerRun(runs, func() {
			h, err := m.Lock(ctx, opts...)
			require.NoError(t, err)
			require.NoError(t, h.Unlock(ctx))
		}))
		runtime.ReadMemStats(&after)
		size = min(size, float64(after.TotalAlloc-before.TotalAlloc)/(runs+1)) // one more is to warm up
	}
	return allocs, size
}

// TestWaitingCosts: a goroutine that waits behind another of its client is parked on a small stack, and has little on the heap.
func TestWaitingCosts(t *testing.T) {
	const n = 10000
	kindtest.WaitersCost(t, n, waiterBudget, func() (leave func()) {
		m := rlock.New(newClient(t, redistest.Shared(t).Client(t), nil), uniqueName(t))
		h := lock(t, m)
		ctx, end := context.WithCancel(t.Context())
		before := queued()
		var group sync.WaitGroup
		for range n {
			group.Go(func() { _, _ = m.Lock(ctx) })
		}
		eventually(t, "all wait", func() bool { return queued() == before+n })
		return func() {
			end()
			group.Wait()
			unlock(t, h)
		}
	})
}
