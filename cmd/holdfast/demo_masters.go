package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// demoMasters is how many masters grant the quorum lock: two may fail.
const demoMasters = 5

// master is one of them, as the demo sees it.
type master struct {
	*server
	rdb redis.UniversalClient
}

// startMasters starts servers that know nothing of each other. They are all of one sort, emulations
// if one of them does not start.
func startMasters(ctx context.Context, emulate bool) ([]*master, error) {
	bin, why := findServer(), "as the first one"
	switch {
	case emulate:
	case bin == "":
		why = noServer
	default:
		masters, err := starting(func() (*server, error) { return private(ctx, bin) })
		if err == nil || ctx.Err() != nil {
			return masters, err
		}
		why = notStarted(bin, err)
	}
	return starting(func() (*server, error) { return emulation(why) })
}

func starting(start func() (*server, error)) (masters []*master, err error) {
	for range demoMasters {
		m := &master{}
		if m.server, err = start(); err == nil {
			masters = append(masters, m)
			m.rdb, err = m.address.open(nil)
		}
		if err != nil {
			stopMasters(masters)
			return nil, err
		}
	}
	return masters, nil
}

func stopMasters(masters []*master) {
	for _, m := range masters {
		if m.rdb != nil {
			_ = m.rdb.Close() // an error is of no use to anybody
		}
		m.stop()
	}
}

// agreeing is how many of some masters say that the owner holds the lock.
func agreeing(ctx context.Context, masters []*master, name, owner string) (n int, err error) {
	for _, m := range masters {
		holds, err := m.rdb.HExists(ctx, name, owner).Result()
		if err != nil {
			return n, err
		}
		if holds {
			n++
		}
	}
	return n, nil
}

// leaseEnd is before when a master grants the lock to nobody else.
func (m *master) leaseEnd(ctx context.Context, name string) (time.Time, error) {
	now := time.Now()
	left, err := m.rdb.PTTL(ctx, name).Result()
	return now.Add(left), err
}

// until looks again and again until something is so.
func until(ctx context.Context, what string, is func() (bool, error)) error {
	limit := time.Now().Add(orderWithin())
	for {
		switch ok, err := is(); {
		case err != nil:
			return err
		case ok:
			return nil
		case time.Now().After(limit):
			return fmt.Errorf("not within %v: %s", orderWithin(), what)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
