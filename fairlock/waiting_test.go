package fairlock_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// crowd has n goroutines of one client wait for a lock that another client holds, and returns once all have places in the queue. leave ends
// their wait.
func crowd(tb testing.TB, srv *redistest.Server, n int, ctx context.Context) (leave func()) {
	tb.Helper()
	h, err := fairlock.New(newClient(tb, srv.Client(tb), nil), "a").Lock(tb.Context())
	require.NoError(tb, err)
	m := fairlock.New(newClient(tb, srv.Client(tb), nil), "a")
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			h, err := m.Lock(ctx)
			if err == nil {
				err = h.Unlock(context.Background())
			}
			if err != nil && ctx.Err() == nil {
				tb.Error(err)
			}
		})
	}
	rdb := srv.Client(tb)
	require.Eventually(tb, func() bool {
		return rdb.LLen(context.Background(), "redisson_lock_queue:{a}").Val() == int64(n)
	}, 5*patience, 10*time.Millisecond)
	return func() {
		require.NoError(tb, h.Unlock(context.Background()))
		group.Wait()
	}
}

// BenchmarkWaiting reports what a goroutine that waits costs in memory, its stack included. The budget of 4 KiB is not met: to ask the server takes a
// stack of 8 KiB, which a parked goroutine keeps.
func BenchmarkWaiting(b *testing.B) {
	const n = 10_000
	used := func() (heap, stack uint64) {
		var m runtime.MemStats
		for range 3 { // each lets a stack shrink by half
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapInuse, m.StackInuse
	}
	for name, cancellable := range map[string]bool{"background": false, "cancellable": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				srv := redistest.Start(b)
				ctx, cancel := context.Background(), func() {}
				if cancellable {
					ctx, cancel = context.WithCancel(ctx)
				}
				heap, stack := used()
				leave := crowd(b, srv, n, ctx)
				h, s := used()
				b.ReportMetric(float64(h-heap)/n, "heap-B/waiter")
				b.ReportMetric(float64(s-stack)/n, "stack-B/waiter")
				leave()
				cancel()
			}
		})
	}
}
