package main

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// waiters lets Count goroutines wait for one name that another client holds, weighs them, then lets
// each have it once.
func (w *worker) waiters(ctx context.Context) (r *result, err error) {
	c, ok := w.clients[0].(holdfastClient)
	if !ok {
		return nil, errors.New("only Holdfast's clients can be asked about waiters")
	}
	// The holder is a client of its own, as if it were in another process: its waiters must not
	// know of it.
	first, err := openHoldfast(c.kind)(w.job)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, first.close()) }()
	holder, err := first.locker(ctx, w.Name)
	if err != nil {
		return nil, err
	}
	unlock, _, err := holder(ctx)
	if err != nil {
		return nil, err
	}
	win, err := w.begin()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(ctx, timeAt(win.To))
	defer cancel()
	empty := memory()
	q := startQueue(ctx, w, c)
	values := map[string]float64{}
	if err := q.settle(ctx); err != nil {
		return nil, errors.Join(err, unlock())
	}
	values[metricMemory] = (memory() - empty) / float64(w.Count)
	values[metricSubscriptions], err = subscriptions(ctx, c.rdb, w.Name)
	if err != nil {
		return nil, errors.Join(err, unlock())
	}
	before, err := serverCounts(ctx, c.rdb)
	if err != nil {
		return nil, errors.Join(err, unlock())
	}
	began := now()
	if err := unlock(); err != nil {
		return nil, err
	}
	if r = q.join(); r.Entries == 0 {
		return nil, errors.New("nobody was served: " + r.Error)
	}
	took := now() - began
	after, err := serverCounts(context.WithoutCancel(ctx), c.rdb)
	if err != nil {
		return nil, err
	}
	values[metricScripts] = (after.scripts - before.scripts) / float64(r.Entries)
	values[metricCommands] = (after.commands - before.commands) / float64(r.Entries)
	values[metricRate] = float64(r.Entries) / (float64(took) / 1e9)
	r.Values = values
	return r, nil
}

// waitingQueue is goroutines that wait for one name; each gets it once.
type waitingQueue struct {
	group   sync.WaitGroup
	count   int
	started atomic.Int64
	served  atomic.Int64
	failed  atomic.Int64
	failure atomic.Pointer[string] // the first
}

func startQueue(ctx context.Context, w *worker, c holdfastClient) *waitingQueue {
	q := &waitingQueue{count: w.Count}
	lock := c.kind(c.client, w.Name)
	slot := w.page.slot(0)
	for i := range w.Count {
		q.group.Go(func() {
			q.started.Add(1)
			h, err := lock.Lock(ctx)
			if err == nil {
				me := newParticipant(w.Process, i)
				slot.enter(me, h.Token())
				slot.leave(me)
				q.served.Add(1)
				err = h.Unlock(context.Background())
			}
			if err != nil {
				text := err.Error()
				q.failure.CompareAndSwap(nil, &text)
				q.failed.Add(1)
			}
		})
	}
	return q
}

// settle waits until all goroutines have asked and a second has passed in which memory could
// settle.
func (q *waitingQueue) settle(ctx context.Context) error {
	for q.started.Load() < int64(q.count) {
		if pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	pause(ctx, time.Second)
	if n := q.failed.Load() + q.served.Load(); n > 0 {
		return errors.New("waiters came back while the name was held")
	}
	return ctx.Err()
}

func (q *waitingQueue) join() *result {
	q.group.Wait()
	r := &result{Entries: q.served.Load(), Errors: q.failed.Load()}
	if text := q.failure.Load(); text != nil {
		r.Error = *text
	}
	return r
}

// memory is what the heap and the stacks take, after a collection.
func memory() float64 {
	runtime.GC()
	runtime.GC() // what a finaliser of the first one freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// subscriptions counts those to channels of a name, over all connections of the server.
func subscriptions(ctx context.Context, rdb *redis.Client, name string) (float64, error) {
	all, err := rdb.PubSubChannels(ctx, "*").Result()
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, channel := range all {
		if !strings.Contains(channel, name) {
			continue
		}
		n, err := rdb.PubSubNumSub(ctx, channel).Result()
		if err != nil {
			return 0, err
		}
		total += n[channel]
	}
	return float64(total), nil
}
