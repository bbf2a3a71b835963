package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// demoWaiters is how many goroutines of a worker wait for the latch.
const demoWaiters = 50

// opening has A and C wait until something has been counted down twice.
func (s *story) opening(ctx context.Context) error {
	s.chapter("latch: many wait until others are done")
	if _, err := s.kin.latch.Set(ctx, 2); err != nil {
		return err
	}
	for _, m := range []*member{s.a, s.c} {
		if _, err := m.do(ctx, order{Op: "await", N: demoWaiters}); err != nil {
			return err
		}
	}
	left, err := s.kin.latch.CountDown(ctx)
	if err != nil {
		return err
	}
	awake := 0
	for _, m := range []*member{s.a, s.c} {
		r, err := m.do(ctx, order{Op: "awake"})
		if err != nil {
			return err
		}
		awake += r.Count
	}
	s.check(left == 1 && awake == 0, "A and C wait; one of two has counted",
		"%d wait, %d are awake", 2*demoWaiters, awake)

	began := time.Now()
	if left, err = s.kin.latch.CountDown(ctx); err != nil {
		return err
	}
	var last time.Time
	for _, m := range []*member{s.a, s.c} {
		r, err := receive(ctx, m.opened)
		if err != nil {
			return err
		}
		awake += r.Count
		if r.Ended.After(last) {
			last = r.Ended
		}
	}
	s.check(left == 0 && awake == 2*demoWaiters, "the other one counts: all are awake", "%d, after %s", awake,
		brief(last.Sub(began)))
	return nil
}

// calls is the keys by which a latch remembers the calls of the demo, so that they can be deleted at
// the end. Their names are nobody's business but the latch's: this hook of go-redis reads them off.
type calls struct {
	prefix string
	mu     sync.Mutex // guards seen
	seen   []string
}

func (c *calls) keys() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

func (c *calls) note(cmds ...redis.Cmder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cmd := range cmds {
		for _, arg := range cmd.Args() {
			key, ok := arg.(string)
			if ok && strings.HasPrefix(key, c.prefix) && !slices.Contains(c.seen, key) {
				c.seen = append(c.seen, key)
			}
		}
	}
}

func (c *calls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *calls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.note(cmd)
		return next(ctx, cmd)
	}
}

func (c *calls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.note(cmds...)
		return next(ctx, cmds)
	}
}
