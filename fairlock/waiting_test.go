package fairlock_test

import (
	"context"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// crowd has n goroutines of one client wait for a lock that another client holds, and returns once
// all have places in the queue. leave ends their wait.
func crowd(tb testing.TB, srv *redistest.Server, n int, ctx context.Context) (leave func()) {
	tb.Helper()
	h := lock(tb, fairlock.New(newClient(tb, srv.Client(tb), nil), "a"))
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
		unlock(tb, h)
		group.Wait()
	}
}

// used is what the process has in use when all garbage is gone, and stacks have shrunk, each by
// half at a time.
func used() (heap, stack uint64) {
	var m runtime.MemStats
	for before := uint64(math.MaxUint64); ; before = m.HeapInuse + m.StackInuse {
		runtime.GC()
		if runtime.ReadMemStats(&m); m.HeapInuse+m.StackInuse > before-before/100 {
			return m.HeapInuse, m.StackInuse
		}
	}
}

// TestWaitingCosts: a goroutine that waits is parked on a small stack, and has little on the heap.
// So it asks the server nothing itself, see asker.go. The control: goroutines that are parked where
// one that asks is, some KiB deep, are seen.
func TestWaitingCosts(t *testing.T) {
	const n = 2500
	for name, cancellable := range map[string]bool{"background": false, "cancellable": true} {
		t.Run(name, func(t *testing.T) {
			srv := redistest.Start(t)
			ctx := context.Background()
			if cancellable {
				ctx = t.Context()
			}
			heap, stack := used()
			leave := crowd(t, srv, n, ctx)
			h, s := used()
			leave()
			t.Logf("%d bytes on the heap and %d of stack", (h-heap)/n, (s-stack)/n)
			require.Less(t, (h+s-heap-stack)/n, waiterBudget)
		})
	}
	t.Run("control", func(t *testing.T) {
		heap, stack := used()
		end := make(chan struct{})
		var started, group sync.WaitGroup
		for range n {
			started.Add(1)
			group.Go(func() { parkDeep(&started, end) })
		}
		started.Wait()
		h, s := used()
		close(end)
		group.Wait()
		require.Greater(t, (h+s-heap-stack)/n, waiterBudget)
	})
}

// parkDeep has a frame of 4 KiB.
func parkDeep(started *sync.WaitGroup, end chan struct{}) {
	var room [4096]byte
	started.Done()
	<-end
	runtime.KeepAlive(room[:])
}
