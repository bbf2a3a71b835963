package main

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
)

// patience bounds what only Holdfast is asked to do: it is minutes below it, and it ends a run that
// hangs.
const patience = 5 * time.Minute

// measureWaiters lets many wait for one name.
func measureWaiters(ctx context.Context, b *bench, s scenario, c contender, name string) (sample, error) {
	return b.ask(ctx, s, c, func(j *job) { j.Task, j.Name, j.Count = taskWaiters, name, b.Waiters })
}

// measureHeld holds many names.
func measureHeld(ctx context.Context, b *bench, s scenario, c contender, name string) (sample, error) {
	out, err := b.ask(ctx, s, c, func(j *job) { j.Task, j.Name, j.Count, j.Goroutines = taskHeld, name, b.Held, 64 })
	if err == nil {
		out.Metrics[metricLease] = cmp.Or(s.lease, holdfast.DefaultLease).Seconds() // the rate goes with it
	}
	return out, err
}

// ask has one worker of a contender's do a task that measures itself.
func (b *bench) ask(ctx context.Context, s scenario, c contender, change func(*job)) (out sample, err error) {
	page, path, remove, err := b.newPage()
	if err != nil {
		return out, err
	}
	defer remove()
	j := b.job(s, c, "", "", path)
	change(&j)
	ctx, cancel := context.WithTimeout(ctx, patience+tearDown)
	defer cancel()
	t, err := assemble(ctx, b.command(c), j)
	if err != nil {
		return out, err
	}
	defer t.stop()
	if err := t.tell(window{now(), now() + int64(patience)}); err != nil {
		return out, err
	}
	results, err := t.results(ctx)
	if err != nil {
		return out, err
	}
	out.Metrics = results[0].Values
	out.check(page, results)
	if j.Task == taskHeld {
		out.Lost = 0 // its holders have a name each, and do not use the page
	}
	return out, nil
}
