//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// fill empties the server and fills it. One in ten of the others' keys is a hash.
func fill(ctx context.Context, rdb *redis.Client, others, locks int) error {
	if err := rdb.FlushAll(ctx).Err(); err != nil {
		return err
	}
	for i := 0; i < others; {
		pipe := rdb.Pipeline()
		for range min(others-i, 10_000) {
			if i%10 == 0 {
				pipe.HSet(ctx, fmt.Sprintf("user:%d", i), "name", "somebody", "visits", i)
			} else {
				pipe.Set(ctx, fmt.Sprintf("session:%d", i), "data", time.Hour)
			}
			i++
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	now, err := rdb.Time(ctx).Result()
	if err != nil {
		return err
	}
	for i := 0; i < locks; {
		pipe := rdb.Pipeline()
		for range min(locks-i, 1000) {
			lock(ctx, pipe, i, now)
			i++
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lock makes the keys of one lock as the library leaves them.
func lock(ctx context.Context, pipe redis.Pipeliner, i int, now time.Time) {
	name := fmt.Sprintf("lock:%d", i)
	owner := func(n int) string {
		return fmt.Sprintf("%08x-2222-4333-8444-555555555555:h%d", rand.Uint32(), n)
	}
	const lease = 30 * time.Minute
	ends := float64(now.Add(lease).UnixMilli())
	pipe.Set(ctx, "redisson_lock_token:{"+name+"}", now.UnixMicro(), time.Hour)
	switch i % 10 {
	case 7: // read by four
		values := []any{"mode", "read"}
		for n := range 4 {
			reader := owner(n)
			values = append(values, reader, 1)
			pipe.Set(ctx, "{"+name+"}:"+reader+":rwlock_timeout:1", 1, lease)
		}
		pipe.HSet(ctx, name, values...)
		pipe.PExpire(ctx, name, lease)
	case 8: // two permits are out
		pipe.Set(ctx, name, 3, time.Hour)
		pipe.ZAdd(ctx, "{"+name+"}:timeout", redis.Z{Score: ends, Member: owner(1)}, redis.Z{Score: ends, Member: owner(2)})
	default:
		pipe.HSet(ctx, name, owner(1), 1)
		pipe.PExpire(ctx, name, lease)
		if i%10 == 9 { // five wait
			for n := range 5 {
				waiter := owner(n + 2)
				pipe.RPush(ctx, "redisson_lock_queue:{"+name+"}", waiter)
				pipe.ZAdd(ctx, "redisson_lock_timeout:{"+name+"}", redis.Z{Score: ends, Member: waiter})
			}
		}
	}
}
