package rlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
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

// TestUncontendedIsTwoCommands: one to lock, one to unlock, no subscription.
func TestUncontendedIsTwoCommands(t *testing.T) {
	srv := redistest.Start(t)
	m := rlock.New(newClient(t, srv.Client(t), nil), "a")
	for range 2 { // the first round loads the scripts
		srv.ResetStats(t)
		unlock(t, lock(t, m))
	}
	calls := srv.CommandCalls(t)
	require.Equal(t, int64(2), calls["evalsha"])
	for _, none := range []string{"eval", "subscribe", "unsubscribe", "ssubscribe"} {
		require.Zero(t, calls[none], none)
	}
}
