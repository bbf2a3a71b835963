package main

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redlock"
)

// redlockClient is Holdfast's quorum, with a client for each master.
type redlockClient struct {
	clients []*holdfast.Client
	rdbs    []*redis.Client
}

// openRedlock uses go-redis and Holdfast as they come.
func openRedlock(j job) (client, error) {
	var c redlockClient
	for _, addr := range j.Masters {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		one, err := holdfast.New(rdb, &holdfast.Options{Lease: j.Lease, Logger: silent}) // 0: its default
		if err != nil {
			return nil, errors.Join(err, rdb.Close(), c.close())
		}
		c.clients, c.rdbs = append(c.clients, one), append(c.rdbs, rdb)
	}
	return c, nil
}

func (c redlockClient) locker(_ context.Context, name string) (locker, error) {
	lock := redlock.New(c.clients, name)
	return func(ctx context.Context) (func() error, uint64, error) {
		h, err := lock.Lock(ctx)
		if err != nil {
			return nil, 0, err
		}
		return func() error { return h.Unlock(context.Background()) }, h.Token(), nil
	}, nil
}

func (c redlockClient) close() (err error) {
	for i := range c.clients {
		err = errors.Join(err, c.clients[i].Close(context.Background()), c.rdbs[i].Close())
	}
	return err
}
