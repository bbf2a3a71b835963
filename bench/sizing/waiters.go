//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
)

// waiting lets goroutines wait for names that a client more holds, and watches what that costs while
// nothing is released.
func waiting(ctx context.Context, s settings, admin *redis.Client, c crowd) (m measured, err error) {
	if err := admin.FlushAll(ctx).Err(); err != nil {
		return m, err
	}
	holder, err := newTeam(s, 1)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, holder.close()) }()
	for i := range c.names {
		if _, err := c.lock(holder.clients[0], i).Lock(ctx); err != nil {
			return m, err
		}
	}
	empty, err := look(ctx, admin, true)
	if err != nil {
		return m, err
	}
	t, err := newTeam(s, c.clients)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	wait, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	var back atomic.Int64
	for i := range s.waiters {
		group.Go(func() {
			// Neighbours wait with different clients, and so do those for one name.
			lock := c.lock(t.clients[i/c.names%c.clients], i%c.names)
			for wait.Err() == nil { // on a busy machine the first question may come too late
				_, _ = lock.Lock(wait)
				back.Add(1)
			}
		})
	}
	if err := settle(ctx, admin); err != nil {
		return m, err
	}
	before := back.Load()
	if m, err = watch(ctx, admin, empty, s.waiters, s.window); err != nil {
		return m, err
	}
	if n := back.Load() - before; n > 0 {
		return m, fmt.Errorf("%d waiters came back while the names were held; the machine is too busy to measure on", n)
	}
	m.subscriptions, err = subscriptions(ctx, admin)
	return m, err
}

func (c crowd) lock(client *holdfast.Client, i int) holdfast.Locker {
	if c.fair {
		return fairlock.New(client, nameOf(i))
	}
	return rlock.New(client, nameOf(i))
}

// settle waits until the waiters have asked: in half a second no script was run, or hardly one.
func settle(ctx context.Context, admin *redis.Client) error {
	const hardly = 50
	for last := -1.0; ; {
		c, err := look(ctx, admin, false)
		if err != nil || last > 0 && c.scripts-last < hardly {
			return err
		}
		last = c.scripts
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}

// subscriptions are those to all channels, sharded ones too.
func subscriptions(ctx context.Context, admin *redis.Client) (total int64, err error) {
	channels, err := admin.PubSubChannels(ctx, "*").Result()
	if err != nil {
		return 0, err
	}
	sharded, err := admin.PubSubShardChannels(ctx, "*").Result()
	if err != nil {
		return 0, err
	}
	counts, err := admin.PubSubNumSub(ctx, channels...).Result()
	if err != nil {
		return 0, err
	}
	more, err := admin.PubSubShardNumSub(ctx, sharded...).Result()
	for _, n := range counts {
		total += n
	}
	for _, n := range more {
		total += n
	}
	return total, err
}
