package main

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
)

// idleWindows is how many windows long is looked at those who wait: polls are seconds apart.
const idleWindows = 5

// measureIdle has many wait for a name that nobody gives up, and counts what that costs the server.
func measureIdle(ctx context.Context, b *bench, s scenario, c contender, name string) (sample, error) {
	return b.ask(ctx, s, c, func(j *job) { j.Task, j.Name, j.Section = taskIdle, name, idleWindows*b.Time })
}

// idle holds the name by a client of its own, has Goroutines wait for it, and counts what the
// server does in the time of Section.
func (w *worker) idle(ctx context.Context) (*result, error) {
	c, ok := w.clients[0].(holdfastClient)
	if !ok {
		return nil, errors.New("only Holdfast's clients are asked what waiting costs")
	}
	first, err := openHoldfast(c.kind)(w.job)
	if err != nil {
		return nil, err
	}
	r, err := w.idleBehind(ctx, first, c)
	return r, errors.Join(err, first.close())
}

func (w *worker) idleBehind(ctx context.Context, first client, c holdfastClient) (*result, error) {
	holder, err := first.locker(ctx, w.Name)
	if err != nil {
		return nil, err
	}
	unlock, _, err := holder(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := w.begin(); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithCancel(ctx)
	q := &waitingQueue{count: w.Goroutines}
	for i := range w.Goroutines {
		other, ok := w.clients[i%len(w.clients)].(holdfastClient)
		if !ok {
			cancel()
			return nil, errors.New("clients of two kinds")
		}
		q.wait(waiting, other.kind(other.client, w.Name))
	}
	r, err := w.idleCosts(ctx, q, c)
	cancel()
	q.group.Wait()
	return r, errors.Join(err, unlock())
}

// idleCosts counts what the server does while nothing happens.
func (w *worker) idleCosts(ctx context.Context, q *waitingQueue, c holdfastClient) (*result, error) {
	if err := q.settle(ctx); err != nil {
		return nil, err
	}
	before, err := serverCounts(ctx, c.rdb)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	pause(ctx, w.Section)
	took := time.Since(began).Seconds()
	after, err := serverCounts(ctx, c.rdb)
	if err != nil {
		return nil, err
	}
	if n := q.failed.Load() + q.served.Load(); n > 0 {
		return nil, errors.New("waiters came back while the name was held")
	}
	return &result{Values: map[string]float64{
		metricScriptRate:  (after.scripts - before.scripts) / took,
		metricCommandRate: (after.commands - before.commands) / took,
	}}, nil
}

// wait starts one more goroutine that waits until ctx ends.
func (q *waitingQueue) wait(ctx context.Context, lock holdfast.Locker) {
	q.group.Go(func() {
		q.started.Add(1)
		h, err := lock.Lock(ctx)
		switch {
		case err == nil:
			q.served.Add(1)
			_ = h.Unlock(context.Background()) // whoever is served here is counted as a failure
		case ctx.Err() == nil:
			q.failed.Add(1)
		}
	})
}
