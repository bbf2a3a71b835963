//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

// taking is how many goroutines take the names, over all clients.
const taking = 60

// holding takes names with n clients, and watches the server while they are renewed.
func holding(ctx context.Context, s settings, admin *redis.Client, n int) (m measured, err error) {
	if err := admin.FlushAll(ctx).Err(); err != nil {
		return m, err
	}
	empty, err := look(ctx, admin, true)
	if err != nil {
		return m, err
	}
	t, err := newTeam(s, n)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	holds, err := t.take(ctx, s.holds)
	if err != nil {
		return m, err
	}
	if m, err = watch(ctx, admin, empty, s.holds, s.window); err != nil {
		return m, err
	}
	for _, h := range holds {
		if !h.Deadline().After(time.Now()) {
			return m, fmt.Errorf("a hold of %d was lost; the machine is too busy to measure on", s.holds)
		}
	}
	if m.hash, err = admin.MemoryUsage(ctx, nameOf(0), 0).Result(); err != nil {
		return m, err
	}
	m.token, err = admin.MemoryUsage(ctx, "redisson_lock_token:{"+nameOf(0)+"}", 0).Result()
	return m, err
}

func nameOf(i int) string { return fmt.Sprintf("sizing:order:%06d", i) }

// take locks names, spread over the clients.
func (t *team) take(ctx context.Context, names int) ([]*holdfast.Hold, error) {
	holds := make([]*holdfast.Hold, names)
	var group errgroup.Group
	for g := range taking {
		group.Go(func() (err error) {
			for i := g; i < names && err == nil; i += taking {
				lock := rlock.New(t.clients[i%len(t.clients)], nameOf(i))
				for again := true; again; again = ctx.Err() == nil && errors.Is(err, holdfast.ErrUnavailable) {
					holds[i], err = lock.Lock(ctx) // on a busy machine it may come too late
				}
			}
			return err
		})
	}
	return holds, group.Wait()
}
