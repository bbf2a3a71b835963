package rwlock_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
)

// clients are processes of a benchmark.
func clients(b *testing.B, n int) (list []*holdfast.Client) {
	b.Helper()
	srv := redistest.Start(b)
	for range n {
		list = append(list, newClient(b, srv.Client(b), nil))
	}
	return list
}

// pairs has goroutines of 8 clients, 8 of each, lock and unlock b.N times together.
func pairs(b *testing.B, locker func(c *holdfast.Client, i int) holdfast.Locker) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	list := clients(b, 8)
	b.ResetTimer()
	var g sync.WaitGroup
	for i := range 64 {
		l := locker(list[i%8], i)
		g.Go(func() {
			for left.Add(-1) >= 0 {
				h, err := l.Lock(context.Background())
				if err == nil {
					err = h.Unlock(context.Background())
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	g.Wait()
}

// BenchmarkReaders is 64 readers on 8 clients of one lock, and beside it as many plain locks with a
// name each: readers do not wait for each other.
func BenchmarkReaders(b *testing.B) {
	b.Run("rwlock", func(b *testing.B) {
		pairs(b, func(c *holdfast.Client, _ int) holdfast.Locker { return rwlock.New(c, "one").RLocker() })
	})
	b.Run("rlock-names", func(b *testing.B) {
		pairs(b, func(c *holdfast.Client, i int) holdfast.Locker { return rlock.New(c, strconv.Itoa(i)) })
	})
}

// BenchmarkWriterAmongReaders is how long a writer waits while 63 others read for a millisecond each,
// again and again.
func BenchmarkWriterAmongReaders(b *testing.B) {
	list := clients(b, 8)
	ctx, cancel := context.WithCancel(b.Context())
	var g sync.WaitGroup
	var longest atomic.Int64
	for i := range 63 {
		m := rwlock.New(list[i%8], "one")
		g.Go(func() {
			for ctx.Err() == nil {
				if h, err := m.RLock(ctx); err == nil {
					began := time.Now()
					select {
					case <-time.After(time.Millisecond):
					case <-ctx.Done():
					}
					_ = h.Unlock(ctx)
					if d := int64(time.Since(began)); d > longest.Load() {
						longest.Store(d)
					}
				}
			}
		})
	}
	var waits []time.Duration
	m := rwlock.New(list[7], "one")
	for range b.N {
		began := time.Now()
		h, err := m.Lock(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		waits = append(waits, time.Since(began))
		if err := h.Unlock(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	g.Wait()
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "wait-p50-ms")
	b.ReportMetric(float64(longest.Load())/1e6, "longest-read-ms")
	b.ReportMetric(float64(waits[len(waits)-1].Microseconds())/1000, "wait-max-ms")
	b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds())/1000, "wait-p99-ms")
}
