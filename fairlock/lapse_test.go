package fairlock_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestStoppedClientCostsOneClaim: five waiters of a client that listens and does nothing, as one
// that is stopped, stand before a live one. That is granted the lock when the first claim has
// ended, and the other four have kept their places.
func TestStoppedClientCostsOneClaim(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	name := uniqueName(t)
	holder, m := fairlock.New(newClient(t, rdb, nil), name), fairlock.New(newClient(t, rdb, nil), name)
	h := lock(t, holder)
	const stopped = "00000000-0000-0000-0000-000000000000"
	sub := rdb.Subscribe(t.Context(), "redisson_lock__channel:{"+name+"}:"+stopped)
	defer sub.Close()
	_, err := sub.Receive(t.Context())
	require.NoError(t, err)
	var want []string
	for i := range 5 {
		owner := fmt.Sprintf("%s:h%d", stopped, i)
		want = append(want, owner)
		queuedBefore(t, rdb, name, owner)
	}
	w := wait(t.Context(), t, rdb, m)
	unlock(t, h)
	h = w.Hold()
	require.Equal(t, want[1:], queued(t, rdb, name))
	unlock(t, h)
}

// queuedBefore gives an owner a place that was put off now, for 15 s.
func queuedBefore(t *testing.T, rdb *redis.Client, name, owner string) {
	t.Helper()
	now := rdb.Time(t.Context()).Val().UnixMilli()
	require.NoError(t, rdb.RPush(t.Context(), "redisson_lock_queue:{"+name+"}", owner).Err())
	require.NoError(t, rdb.ZAdd(t.Context(), "redisson_lock_timeout:{"+name+"}",
		redis.Z{Score: float64(now + 15000), Member: owner}).Err())
}

// TestServerForgetsPlaces: a waiter whose place is lost with all data finds out by its next poll,
// and need not wait for the one that puts all places off.
func TestServerForgetsPlaces(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	holder, m := fairlock.New(newClient(t, rdb, nil), "forgets"),
		fairlock.New(newClient(t, srv.Client(t), nil), "forgets")
	_ = lock(t, holder)
	w := wait(t.Context(), t, rdb, m)
	eventually(t, "a poll", func() bool { return polls(t, rdb) > 0 })
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	before := polls(t, rdb)
	h := w.Hold()
	require.LessOrEqual(t, polls(t, rdb)-before, int64(2), "polls")
	unlock(t, h)
}

// polls is how often a script has counted the deadlines of those who were handed the lock, which
// only polls do.
func polls(t *testing.T, rdb *redis.Client) (calls int64) {
	t.Helper()
	stats, err := rdb.InfoMap(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	if text := stats["Commandstats"]["cmdstat_zcount"]; text != "" {
		_, err = fmt.Sscanf(text, "calls=%d", &calls)
		require.NoError(t, err)
	}
	return calls
}
