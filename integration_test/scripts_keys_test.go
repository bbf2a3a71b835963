package integration_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// dataset is everything on a server: by key, the dumped value and the time to live (-1: none).
type dataset map[string]datum

type datum struct {
	value string
	ttl   time.Duration
}

func look(ctx context.Context, rdb *redis.Client) (dataset, error) {
	all, err := rdb.Keys(ctx, "*").Result()
	if err != nil {
		return nil, err
	}
	d := dataset{}
	for _, k := range all {
		value, err := rdb.Dump(ctx, k).Result()
		if errors.Is(err, redis.Nil) {
			continue // it ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		ttl, err := rdb.PTTL(ctx, k).Result()
		if err != nil {
			return nil, err
		}
		if ttl != -2 {
			d[k] = datum{value, ttl}
		}
	}
	return d, nil
}

// unchanged tells what is not as it was, but for the time that has passed.
func (d dataset) unchanged(now dataset) error {
	if len(d) != len(now) {
		return fmt.Errorf("there were %d keys, there are %d", len(d), len(now))
	}
	for k, was := range d {
		is, ok := now[k]
		if !ok || is.value != was.value {
			return fmt.Errorf("%s has changed: %q, now %q", k, was.value, is.value)
		}
		if !near(was.ttl.Milliseconds(), is.ttl.Milliseconds()) {
			return fmt.Errorf("the time to live of %s was %v, is %v", k, was.ttl, is.ttl)
		}
	}
	return nil
}

// withTTL tells which key would stay for ever.
func (d dataset) withTTL() error {
	for k, is := range d {
		if is.ttl < 0 { // 0 is less than a millisecond
			return fmt.Errorf("%s has no time to live", k)
		}
	}
	return nil
}
