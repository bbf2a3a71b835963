package rlock_test

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// crowd has n goroutines of one client wait for a lock that another client holds, and returns once
// they all do. release frees the lock; done is closed when each of them has had it.
func crowd(tb testing.TB, srv *redistest.Server, n int) (release func(), done chan struct{}) {
	tb.Helper()
	ctx := context.Background()
	h, err := rlock.New(newClient(tb, srv.Client(tb), nil), "a").Lock(ctx)
	require.NoError(tb, err)
	m := rlock.New(newClient(tb, srv.Client(tb), nil), "a")
	before := runtime.NumGoroutine()
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			h, err := m.Lock(ctx)
			if err == nil {
				err = h.Unlock(ctx)
			}
			if err != nil {
				tb.Error(err)
			}
		})
	}
	channel := "redisson_lock__channel:{a}"
	rdb := srv.Client(tb)
	require.Eventually(tb, func() bool {
		return runtime.NumGoroutine() >= before+n && rdb.PubSubNumSub(ctx, channel).Val()[channel] == 1
	}, patience, time.Millisecond)
	done = make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	return func() { require.NoError(tb, h.Unlock(ctx)) }, done
}

// TestTenThousandWaiters: one subscription, and a script to lock and one to unlock per grant.
func TestTenThousandWaiters(t *testing.T) {
	const n = 10_000
	srv := redistest.Start(t)
	release, done := crowd(t, srv, n)
	srv.ResetStats(t)
	release()
	select {
	case <-done:
	case <-time.After(3 * patience):
		t.Fatal("some never got the lock")
	}
	calls := srv.CommandCalls(t)
	require.LessOrEqual(t, calls["evalsha"], int64(2*n+10), "%v", calls)
	require.Zero(t, calls["subscribe"], "%v", calls)
}

// BenchmarkWaiting reports what a goroutine that waits costs in memory, its stack included. The
// budget is 4 KiB.
func BenchmarkWaiting(b *testing.B) {
	const n = 10_000
	used := func() (heap, stack uint64) {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapInuse, m.StackInuse
	}
	for b.Loop() {
		srv := redistest.Start(b)
		heap, stack := used()
		release, done := crowd(b, srv, n)
		h, s := used()
		b.ReportMetric(float64(h-heap)/n, "heap-B/waiter")
		b.ReportMetric(float64(s-stack)/n, "stack-B/waiter")
		release()
		<-done
	}
}

// TestManyHolds: goroutines do not grow with the names that are held, and each name is renewed.
func TestManyHolds(t *testing.T) {
	const n = 3000
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	c := newClient(t, srv.Client(t), &holdfast.Options{Lease: 12 * time.Second}) // renewed every 4 s
	first, err := rlock.New(c, "first").Lock(t.Context())
	require.NoError(t, err)
	before := runtime.NumGoroutine()
	holds := make([]*holdfast.Hold, n)
	each(holds, func(i int) {
		h, err := rlock.New(c, "many:"+strconv.Itoa(i)).Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		holds[i] = h
	})
	require.LessOrEqual(t, runtime.NumGoroutine(), before+4, "four batches of renewals at most")
	deadline := first.Deadline()
	eventually(t, "all are renewed", func() bool {
		return !slices.ContainsFunc(append(holds, first), func(h *holdfast.Hold) bool {
			return h.Deadline().Sub(deadline) <= 3*time.Second
		})
	})
	each(holds, func(i int) {
		if err := holds[i].Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
	require.NoError(t, first.Unlock(t.Context()))
	require.Zero(t, rdb.Exists(t.Context(), "first", "many:0", "many:"+strconv.Itoa(n-1)).Val())
}

// each calls f for every index, from 32 goroutines.
func each(holds []*holdfast.Hold, f func(i int)) {
	var group sync.WaitGroup
	for from := range 32 {
		group.Go(func() {
			for i := from; i < len(holds); i += 32 {
				f(i)
			}
		})
	}
	group.Wait()
}

// subscribers is how many connections of the server listen on channels.
func subscribers(rdb *redis.Client) int {
	return strings.Count(rdb.ClientList(context.Background()).Val(), " flags=P ")
}

// TestIdleClientIsSilent: after work and waiting, a client whose subscription has ended sends
// nothing and holds neither a connection for messages nor a key.
func TestIdleClientIsSilent(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	opts := &holdfast.Options{Lease: 3 * time.Second, Linger: 50 * time.Millisecond} // renewed every second
	m, other := rlock.New(newClient(t, srv.Client(t), opts), "a"), rlock.New(newClient(t, srv.Client(t), opts), "a")
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	_, err = other.Lock(t.Context(), holdfast.Wait(100*time.Millisecond))
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.NoError(t, h.Unlock(t.Context()))
	eventually(t, "the subscription ends", func() bool { return subscribers(rdb) == 0 })
	srv.ResetStats(t)
	<-time.After(1500 * time.Millisecond) // nothing can be waited for: that is the point
	require.Empty(t, srv.CommandCalls(t))
	require.True(t, free(t, rdb, "a"))
}

// TestNothingIsLeftAfterClose: neither keys without a time to live, nor subscribers.
func TestNothingIsLeftAfterClose(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	c, other := newClient(t, srv.Client(t), nil), newClient(t, srv.Client(t), nil)
	_, err := rlock.New(c, "a").Lock(t.Context())
	require.NoError(t, err)
	_, err = rlock.New(other, "a").Lock(t.Context(), holdfast.Wait(50*time.Millisecond))
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.NoError(t, c.Close(t.Context()))
	require.NoError(t, other.Close(t.Context()))
	eventually(t, "no subscriber", func() bool { return subscribers(rdb) == 0 })
	require.True(t, free(t, rdb, "a"))
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		require.Positive(t, rdb.PTTL(t.Context(), key).Val(), key)
	}
}
