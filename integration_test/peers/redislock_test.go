package peers_test

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

func beforeRedislock(ctx context.Context, rdb *redis.Client, work job) error {
	lock, err := obtain(ctx, redislock.New(rdb), "orders:42", 30*time.Second)
	if err != nil {
		return err
	}
	defer lock.Release(context.WithoutCancel(ctx)) // it is not sent on a ctx that was cancelled
	return work(ctx)                               // has to be done within 30 s, or to call lock.Refresh before
}

// obtain is Obtain for a fleet that moves.
func obtain(ctx context.Context, locks *redislock.Client, key string, ttl time.Duration) (*redislock.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, ttl)
	defer cancel()
	retry := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	for {
		lock, err := locks.Obtain(ctx, key, ttl, retry)
		if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			return lock, err
		}
		select { // Holdfast has the lock
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.Join(redislock.ErrNotObtained, ctx.Err())
		}
	}
}

func afterRedislock(ctx context.Context, client *holdfast.Client, work job) error {
	orders := rlock.New(client, "orders:42", rlock.RespectStrings())    // leave the option out when redislock is gone
	return holdfast.Do(ctx, orders, work, holdfast.Wait(5*time.Second)) // an error if the lock was lost meanwhile
}
