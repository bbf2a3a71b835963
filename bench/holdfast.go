package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
)

// silent is the logger of the clients that are measured: waits that are part of a scenario are not worth a warning.
var silent = slog.New(slog.DiscardHandler)

// maker makes a lock of one kind.
type maker func(c *holdfast.Client, name string) holdfast.Locker

func rlockKind(c *holdfast.Client, name string) holdfast.Locker { return rlock.New(c, name) }

// noHandoffKind is rlock where each goroutine asks the server.
func noHandoffKind(c *holdfast.Client, name string) holdfast.Locker {
	return rlock.New(c, name, holdfast.NoHandoff())
}

// keepKind is rlock that stays with its client until others call for it.
func keepKind(c *holdfast.Client, name string) holdfast.Locker {
	return rlock.New(c, name, rlock.Keep(time.Second))
}

func fairlockKind(c *holdfast.Client, name string) holdfast.Locker { return fairlock.New(c, name) }

type holdfastClient struct {
	client *holdfast.Client
	rdb    *redis.Client
	kind   maker
}

// openBackground is rlock under a context that cannot end. It is for one goroutine, which need not
// wait.
func openBackground(j job) (client, error) {
	c, err := openHoldfast(rlockKind)(j)
	return backgroundClient{c}, err
}

type backgroundClient struct{ client }

func (c backgroundClient) locker(ctx context.Context, name string) (locker, error) {
	lock, err := c.client.locker(ctx, name)
	return func(context.Context) (func() error, uint64, error) { return lock(context.Background()) }, err
}

// openHoldfast uses go-redis and Holdfast as they come.
func openHoldfast(kind maker) func(job) (client, error) {
	return func(j job) (client, error) {
		rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
		c, err := holdfast.New(rdb, &holdfast.Options{Lease: j.Lease, Logger: silent}) // 0: its default
		if err != nil {
			return nil, err
		}
		return holdfastClient{c, rdb, kind}, nil
	}
}

func (c holdfastClient) locker(_ context.Context, name string) (locker, error) {
	return lockerOf(c.kind(c.client, name)), nil
}

func lockerOf(lock holdfast.Locker) locker {
	return func(ctx context.Context) (func() error, uint64, error) {
		h, err := lock.Lock(ctx)
		if err != nil {
			return nil, 0, err
		}
		return func() error { return h.Unlock(context.Background()) }, h.Token(), nil
	}
}

func (c holdfastClient) close() error {
	err := c.client.Close(context.Background())
	if closeErr := c.rdb.Close(); err == nil {
		err = closeErr
	}
	return err
}
