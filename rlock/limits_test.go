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
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestManyWaiters: one subscription, and a script to lock and one to unlock per grant.
func TestManyWaiters(t *testing.T) {
	const n = 2000
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	h := lock(t, rlock.New(newClient(t, srv.Client(t), nil), "a"))
	m := rlock.New(newClient(t, srv.Client(t), nil), "a")
	before := runtime.NumGoroutine()
	var all []*kindtest.Pending
	for range n {
		all = append(all, begin(t.Context(), t, func(ctx context.Context, _ ...holdfast.Option) (*holdfast.Hold, error) {
			h, err := m.Lock(ctx)
			if err != nil {
				return nil, err
			}
			return h, h.Unlock(ctx)
		}))
	}
	eventually(t, "all wait", func() bool {
		return runtime.NumGoroutine() >= before+n && kindtest.Listeners(t.Context(), rdb, channelOf(m)) == 1
	})
	srv.ResetStats(t)
	unlock(t, h)
	for _, p := range all {
		p.Hold()
	}
	calls := srv.CommandCalls(t)
	require.LessOrEqual(t, calls["evalsha"], int64(2*n+10), "%v", calls)
	require.Zero(t, calls["subscribe"], "%v", calls)
}

// TestManyHolds: goroutines do not grow with the names that are held, and each name is renewed.
func TestManyHolds(t *testing.T) {
	const n, lease = 2000, 6 * time.Second
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	c := newClient(t, srv.Client(t), &holdfast.Options{Lease: lease})
	first := lock(t, rlock.New(c, "first"))
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
			return h.Deadline().Sub(deadline) <= lease/4
		})
	})
	each(holds, func(i int) {
		if err := holds[i].Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
	unlock(t, first)
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
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	opts := &holdfast.Options{Lease: 3 * time.Second, Linger: 50 * time.Millisecond} // renewed every second
	m, other := rlock.New(newClient(t, srv.Client(t), opts), "a"), rlock.New(newClient(t, srv.Client(t), opts), "a")
	h := lock(t, m)
	refused(t.Context(), t, other.Lock, holdfast.Wait(100*time.Millisecond))
	unlock(t, h)
	eventually(t, "the subscription ends", func() bool { return subscribers(rdb) == 0 })
	srv.ResetStats(t)
	<-time.After(1500 * time.Millisecond) // nothing can be waited for: that is the point
	require.Empty(t, srv.CommandCalls(t))
	require.True(t, free(t, rdb, "a"))
}

// awaitSubscriber waits until somebody listens for the release of a lock.
func awaitSubscriber(t *testing.T, rdb *redis.Client, name string) {
	t.Helper()
	eventually(t, "a subscriber", func() bool {
		return kindtest.Listeners(t.Context(), rdb, "redisson_lock__channel:{"+name+"}") > 0
	})
}

// TestWokenByTheUnlock: two clients hand a lock with a lease of 30 s to and fro. Did a wake-up get
// lost once, the test would take as long as the lease; and the commands show that nobody polled.
func TestWokenByTheUnlock(t *testing.T) {
	srv := redistest.Start(t)
	name := "ping-pong"
	const rounds = 200
	var turns [2]int
	var group sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	start := make(chan struct{})
	for i := range turns {
		m := rlock.New(newClient(t, srv.Client(t), nil), name)
		group.Go(func() {
			<-start
			for turns[i] < rounds {
				h, err := m.Lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				turns[i]++
				if err := h.Unlock(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	srv.ResetStats(t)
	close(start)
	group.Wait()
	calls := srv.CommandCalls(t)
	require.LessOrEqual(t, calls["evalsha"], int64(2*rounds*2+2*rounds*2),
		"two scripts a turn and at most two lost attempts")
}

// TestWaitingCostsNothing: three seconds of waiting under a lease of 30 s.
func TestWaitingCostsNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	holder, waiter := newClient(t, srv.Client(t), nil), newClient(t, srv.Client(t), nil)
	h := lock(t, rlock.New(holder, "a"))
	srv.ResetStats(t)
	refused(t.Context(), t, rlock.New(waiter, "a").Lock, holdfast.Wait(3*time.Second))
	calls := srv.CommandCalls(t)
	require.LessOrEqual(t, calls["evalsha"], int64(3), "the first one asks for the server's time: %v", calls)
	require.LessOrEqual(t, calls["subscribe"], int64(1), "%v", calls)
	require.LessOrEqual(t, calls["ping"], int64(1), "the one that opens the connection: %v", calls)
	unlock(t, h)
}
