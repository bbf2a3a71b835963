package rlock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// awaitSubscriber waits until somebody listens for the release of a lock.
func awaitSubscriber(t *testing.T, rdb *redis.Client, name string) {
	t.Helper()
	channel := "redisson_lock__channel:{" + name + "}"
	eventually(t, "a subscriber of "+channel, func() bool {
		return rdb.PubSubNumSub(context.Background(), channel).Val()[channel] > 0
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
	srv := redistest.Start(t)
	holder, waiter := newClient(t, srv.Client(t), nil), newClient(t, srv.Client(t), nil)
	h, err := rlock.New(holder, "a").Lock(t.Context())
	require.NoError(t, err)
	srv.ResetStats(t)
	_, err = rlock.New(waiter, "a").Lock(t.Context(), holdfast.Wait(3*time.Second))
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	calls := srv.CommandCalls(t)
	require.LessOrEqual(t, calls["evalsha"], int64(3), "the first one asks for the server's time: %v", calls)
	require.LessOrEqual(t, calls["subscribe"], int64(1), "%v", calls)
	require.LessOrEqual(t, calls["ping"], int64(1), "the one that opens the connection: %v", calls)
	require.NoError(t, h.Unlock(t.Context()))
}

// TestUncontendedIsTwoCommands: one to lock, one to unlock, no subscription.
func TestUncontendedIsTwoCommands(t *testing.T) {
	srv := redistest.Start(t)
	m := rlock.New(newClient(t, srv.Client(t), nil), "a")
	for range 2 { // the first round loads the scripts
		srv.ResetStats(t)
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
	}
	calls := srv.CommandCalls(t)
	require.Equal(t, int64(2), calls["evalsha"])
	for _, none := range []string{"eval", "subscribe", "unsubscribe", "ssubscribe"} {
		require.Zero(t, calls[none], none)
	}
}

// TestExpiryWakes: nobody announces the end of a dead holder's lease.
func TestExpiryWakes(t *testing.T) {
	c, rdb := shared(t, nil)
	name := uniqueName(t)
	require.NoError(t, rdb.HSet(t.Context(), name, "dead:1", 1).Err())
	require.NoError(t, rdb.PExpire(t.Context(), name, 300*time.Millisecond).Err())
	h, err := rlock.New(c, name).Lock(t.Context(), holdfast.Wait(patience))
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
}

// TestCancelledWaitersStrandNobody: a thousand waiters of two clients, cancelled at random moments
// while the lock goes from hand to hand. Those that are not cancelled all get it.
func TestCancelledWaitersStrandNobody(t *testing.T) {
	name, rnd := uniqueName(t), level.Rand(t)
	var granted atomic.Int64
	var stay int64
	var group sync.WaitGroup
	for range 2 {
		c, _ := shared(t, nil)
		m := rlock.New(c, name)
		for i := range 500 {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if i%5 != 0 {
				time.AfterFunc(time.Duration(rnd.IntN(300))*time.Millisecond, cancel)
			} else {
				stay++
			}
			group.Go(func() {
				defer cancel()
				h, err := m.Lock(ctx)
				if err != nil {
					return
				}
				if i%5 == 0 {
					granted.Add(1)
				}
				if err := h.Unlock(ctx); err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	require.Equal(t, stay, granted.Load())
}
