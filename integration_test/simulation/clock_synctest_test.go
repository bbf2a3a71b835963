package simulation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// TestServerClock: all that the server knows of time moves with the bubble's clock, at the server's
// rate: TIME in a script, times to live, and the end of a key.
func TestServerClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := bare(Settings{Skew: 0.005, Latency: time.Millisecond})
		defer w.server.Close()
		n := newNetwork(w, 0)
		rdb := w.connect(n)
		ctx := context.Background()
		look := func() []int64 {
			list, err := rdb.Eval(ctx, `return {tonumber(redis.call('TIME')[1]), redis.call('PTTL', KEYS[1])}`,
				[]string{"key"}).Int64Slice()
			require.NoError(t, err)
			return list
		}
		require.NoError(t, rdb.Eval(ctx, `return redis.call('SET', KEYS[1], 'x', 'PX', 3600000)`,
			[]string{"key"}).Err())
		before := look()
		time.Sleep(1000 * time.Second)
		after := look()
		require.InDelta(t, 1005, after[0]-before[0], 1, "TIME, half a per cent fast")
		require.InDelta(t, 1005000, before[1]-after[1], 100, "PTTL")
		time.Sleep(2581 * time.Second) // 2593 s of the server's, and 2595 s are left of an hour
		require.Positive(t, look()[1], "still there")
		time.Sleep(2 * time.Second)
		require.Equal(t, int64(-2), look()[1], "gone")
		require.ErrorIs(t, rdb.Get(ctx, "key").Err(), redis.Nil)
		require.NoError(t, rdb.Close())
		n.cut()
	})
}

// bare is a world with a server and nobody in it.
func bare(s Settings) *World {
	s.ReadTimeout, s.DialTimeout, s.DialerRetries = time.Second, time.Second, 1
	w := &World{Settings: s}
	w.start, w.server = time.Now(), miniredis.NewMiniRedis()
	w.server.ClockTTL(true)
	w.flush()
	w.server.Server().SetPreHook(w.skew)
	return w
}
