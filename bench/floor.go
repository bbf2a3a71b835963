package main

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// floorClient is the lock that everybody writes first: SET NX PX, delete what is one's own, poll.
// It renews nothing, tells nobody of a loss and wakes nobody; it stands for what the commands alone
// cost.
type floorClient struct {
	rdb   *redis.Client
	lease time.Duration
	id    string
	last  *atomic.Int64
}

var compareAndDelete = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

var errNotOurs = errors.New("the lock was not ours any more")

func openFloor(j job) (client, error) {
	id := strconv.Itoa(j.Process) + ":" + strconv.FormatInt(now(), 36) + ":"
	return floorClient{redis.NewClient(&redis.Options{Addr: j.Addr}), cmp.Or(j.Lease, 30*time.Second), id,
		new(atomic.Int64)}, nil
}

func (c floorClient) locker(_ context.Context, name string) (locker, error) {
	return func(ctx context.Context) (func() error, uint64, error) {
		owner := c.id + strconv.FormatInt(c.last.Add(1), 36)
		for {
			err := c.rdb.SetArgs(ctx, name, owner, redis.SetArgs{Mode: "NX", TTL: c.lease}).Err()
			switch {
			case err == nil:
				return func() error { return c.unlock(name, owner) }, 0, nil
			case !errors.Is(err, redis.Nil):
				return nil, 0, err
			}
			if pause(ctx, pollEvery); ctx.Err() != nil {
				return nil, 0, context.Cause(ctx)
			}
		}
	}, nil
}

func (c floorClient) unlock(name, owner string) error {
	n, err := compareAndDelete.Run(context.Background(), c.rdb, []string{name}, owner).Int()
	if err == nil && n == 0 {
		return errNotOurs
	}
	return err
}

func (c floorClient) close() error { return c.rdb.Close() }
