package fairlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// fill puts waiters into the queue of a name, in good order and with plenty of time.
func fill(b *testing.B, rdb *redis.Client, keys []any, n int) {
	b.Helper()
	deadline := float64(time.Now().Add(time.Hour).UnixMilli())
	for done := 0; done < n; {
		pipe := rdb.Pipeline()
		for range min(n-done, 1000) {
			owner := fmt.Sprintf("00000000-0000-0000-0000-000000000000:h%d", done)
			pipe.RPush(b.Context(), keys[2].(string), owner)
			pipe.ZAdd(b.Context(), keys[3].(string), redis.Z{Score: deadline, Member: owner})
			done++
		}
		_, err := pipe.Exec(b.Context())
		require.NoError(b, err)
	}
}

// BenchmarkScripts is what the scripts cost the server while so many wait: us/op of the server's
// own clock, without the way to it. A turn is a release that hands the lock on, and the next
// waiter's request; leave is of one in the middle.
func BenchmarkScripts(b *testing.B) {
	srv := redistest.Start(b)
	rdb := srv.Client(b)
	for _, waiters := range []int{10, 100, 1000, 10000} {
		name := fmt.Sprintf("scripts:%d", waiters)
		keys := []any{
			name, "redisson_lock_token:{" + name + "}", "redisson_lock_queue:{" + name + "}",
			"redisson_lock_timeout:{" + name + "}",
			"redisson_lock__channel:{" + name + "}",
		}
		run := func(b *testing.B, s *lua.Script, args ...any) lua.Reply {
			r, err := lua.Run(b.Context(), rdb, s.Call(append(keys[:5:5], args...)...))
			require.NoError(b, err)
			return r
		}
		measure := func(what string, turn func(b *testing.B, i int)) {
			b.Run(fmt.Sprintf("%s/waiters=%d", what, waiters), func(b *testing.B) {
				before := scriptTime(b, rdb)
				for i := 0; b.Loop(); i++ {
					turn(b, i)
				}
				b.ReportMetric(float64(scriptTime(b, rdb)-before)/float64(b.N), "server-us/op")
			})
		}
		sub := rdb.Subscribe(b.Context(), keys[4].(string)+":00000000-0000-0000-0000-000000000000")
		_, err := sub.Receive(b.Context())
		require.NoError(b, err)
		go func() {
			for range sub.Channel() { // somebody has to read
			}
		}()
		fill(b, rdb, keys, waiters)
		owner := "x:h0"
		// hands it to the first
		require.Equal(b, lua.Done, run(b, lua.FairPoll, "x", "PUBLISH", 3600000, 3600000, 15000).Status)
		measure("turn", func(b *testing.B, i int) {
			holder := rdb.HKeys(b.Context(), name).Val()[0]
			run(b, lua.FairRelease, holder, "PUBLISH", 3600000, 3600000)
			run(b, lua.FairAcquire, holder, 30000, 3600000, "0", 3600000, 3600000, "PUBLISH") // goes to the end
		})
		measure("poll", func(b *testing.B, _ int) { run(b, lua.FairPoll, owner, "PUBLISH", 1000, 3600000, 15000) })
		measure("leave", func(b *testing.B, i int) {
			middle := rdb.LIndex(b.Context(), keys[2].(string), int64(waiters/2)).Val()
			run(b, lua.FairRelease, middle, "PUBLISH", 3600000, 3600000)
			run(b, lua.FairAcquire, middle, 30000, 3600000, "0", 3600000, 3600000, "PUBLISH")
		})
		require.NoError(b, sub.Close())
	}
}

// scriptTime is how many microseconds the server has spent in scripts.
func scriptTime(b *testing.B, rdb *redis.Client) int64 {
	b.Helper()
	stats, err := rdb.InfoMap(b.Context(), "commandstats").Result()
	require.NoError(b, err)
	var calls, usec int64
	if text := stats["Commandstats"]["cmdstat_evalsha"]; text != "" {
		_, err = fmt.Sscanf(text, "calls=%d,usec=%d", &calls, &usec)
		require.NoError(b, err)
	}
	return usec
}

// BenchmarkContended is 64 goroutines of 8 clients on one name.
func BenchmarkContended(b *testing.B) {
	srv := redistest.Start(b)
	var all []*fairlock.Mutex
	for range 8 {
		all = append(all, fairlock.New(newClient(b, srv.Client(b), nil), "contended"))
	}
	var group sync.WaitGroup
	turns := make(chan struct{})
	for i := range 64 {
		group.Go(func() {
			for range turns {
				h, err := all[i%len(all)].Lock(context.Background())
				if err == nil {
					err = h.Unlock(context.Background())
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	for b.Loop() {
		turns <- struct{}{}
	}
	close(turns)
	group.Wait()
}
