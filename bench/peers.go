package main

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// pollEvery is how often the locks that poll look again. It is far below what most of them do by
// default (redsync: 50 to 250 ms), in their favour: with a default they would hand over a few times
// a second.
const pollEvery = time.Millisecond

type redsyncClient struct {
	rdb   *redis.Client
	rs    *redsync.Redsync
	lease time.Duration
	opts  []redsync.Option // of its tries
}

// openRedsync takes one pool, and as many tries as the context allows.
func openRedsync(j job) (client, error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	c := redsyncClient{rdb: rdb, rs: redsync.New(redsyncgoredis.NewPool(rdb)), lease: cmp.Or(j.Lease, 8*time.Second)}
	c.opts = []redsync.Option{redsync.WithRetryDelay(pollEvery)}
	return c, nil
}

func (c redsyncClient) locker(_ context.Context, name string) (locker, error) {
	opts := append([]redsync.Option{redsync.WithTries(math.MaxInt32), redsync.WithExpiry(c.lease)}, c.opts...)
	return func(ctx context.Context) (func() error, uint64, error) {
		m := c.rs.NewMutex(name, opts...)
		if err := m.LockContext(ctx); err != nil {
			return nil, 0, err
		}
		return func() error {
			_, err := m.Unlock()
			return err
		}, 0, nil
	}, nil
}

func (c redsyncClient) close() error { return c.rdb.Close() }

type redislockClient struct {
	rdb   *redis.Client
	locks *redislock.Client
	lease time.Duration
}

func openRedislock(j job) (client, error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	return redislockClient{rdb, redislock.New(rdb), cmp.Or(j.Lease, 10*time.Second)}, nil
}

func (c redislockClient) locker(_ context.Context, name string) (locker, error) {
	opts := &redislock.Options{RetryStrategy: redislock.LinearBackoff(pollEvery)}
	return func(ctx context.Context) (func() error, uint64, error) {
		l, err := c.locks.Obtain(ctx, name, c.lease, opts)
		if err != nil {
			return nil, 0, err
		}
		return func() error { return l.Release(context.Background()) }, 0, nil
	}, nil
}

func (c redislockClient) close() error { return c.rdb.Close() }

type rueidislockClient struct{ locks rueidislock.Locker }

// openRueidislock takes one key, because there is one server, and NOLOOP, as it advises from Redis
// 7.0.5 on.
func openRueidislock(j job) (client, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{j.Addr}},
		KeyMajority:    1,
		NoLoopTracking: true,
		KeyValidity:    j.Lease, // 0: its default
	})
	if err != nil {
		return nil, err
	}
	return rueidislockClient{locks}, nil
}

func (c rueidislockClient) locker(_ context.Context, name string) (locker, error) {
	return func(ctx context.Context) (func() error, uint64, error) {
		_, cancel, err := c.locks.WithContext(ctx, name)
		if err != nil {
			return nil, 0, err
		}
		return func() error { cancel(); return nil }, 0, nil
	}, nil
}

func (c rueidislockClient) close() error { c.locks.Close(); return nil }
