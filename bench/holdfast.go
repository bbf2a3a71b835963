package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
)

// maker makes a lock of one kind.
type maker func(c *holdfast.Client, name string) holdfast.Locker

func rlockKind(c *holdfast.Client, name string) holdfast.Locker { return rlock.New(c, name) }

// noHandoffKind is rlock where each goroutine asks the server.
func noHandoffKind(c *holdfast.Client, name string) holdfast.Locker {
	return rlock.New(c, name, holdfast.NoHandoff())
}

func fairlockKind(c *holdfast.Client, name string) holdfast.Locker { return fairlock.New(c, name) }

type holdfastClient struct {
	client *holdfast.Client
	rdb    *redis.Client
	kind   maker
}

// openHoldfast uses go-redis and Holdfast as they come.
func openHoldfast(kind maker) func(job) (client, error) {
	return func(j job) (client, error) {
		rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
		c, err := holdfast.New(rdb, &holdfast.Options{Lease: j.Lease}) // 0: its default
		if err != nil {
			return nil, err
		}
		return holdfastClient{c, rdb, kind}, nil
	}
}

func (c holdfastClient) locker(_ context.Context, name string) (locker, error) {
	lock := c.kind(c.client, name)
	return func(ctx context.Context) (func() error, uint64, error) {
		h, err := lock.Lock(ctx)
		if err != nil {
			return nil, 0, err
		}
		return func() error { return h.Unlock(context.Background()) }, h.Token(), nil
	}, nil
}

func (c holdfastClient) close() error {
	err := c.client.Close(context.Background())
	if closeErr := c.rdb.Close(); err == nil {
		err = closeErr
	}
	return err
}
