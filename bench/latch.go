package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// latcher is a client that waits for a latch: what is counted down to zero once.
type latcher interface {
	client
	set(ctx context.Context, name string, count int) error
	countDown(ctx context.Context, name string) error
	// wait returns when the latch is at zero.
	wait(ctx context.Context, name string) error
}

var (
	errLatchIsSet = errors.New("the latch was set already")
	errNoLock     = errors.New("a latch is no lock")
)

// lapName is the latch of a lap: each lap has its own.
func lapName(name string, lap int) string { return fmt.Sprintf("%s:%d", name, lap) }

// latchCount is what latches are set to.
const latchCount = 3

// latchPatience bounds a lap.
const latchPatience = 20 * time.Second

// measureLatch has goroutines of several processes wait for a latch, counts it down, and measures
// how long after the beginning of the last count-down each of them is awake. It does so a number of
// times, each time with another latch, and counts what the server does from the last count-down on.
func measureLatch(ctx context.Context, b *bench, s scenario, c contender, name string) (out sample, err error) {
	page, path, remove, err := b.newPage()
	if err != nil {
		return out, err
	}
	defer remove()
	jobs := make([]job, 1, 1+s.processes)
	jobs[0] = b.job(s, c, name, taskCount, path)
	for i := range s.processes {
		j := b.job(s, c, name, taskGather, path)
		j.Process = i + 1
		jobs = append(jobs, j)
	}
	var t team
	defer func() { t.stop() }()
	if t, err = assemble(ctx, b.command(c), jobs...); err != nil {
		return out, err
	}
	limit, cancel := context.WithTimeout(ctx, setUp+time.Duration(s.laps)*latchPatience)
	defer cancel()
	var done latchWork
	for lap := range s.laps {
		if lap > 0 {
			if err := t.ready(limit); err != nil {
				return out, err
			}
		}
		if err := b.latchLap(limit, t, lap, lapName(name, lap), &done, lap >= s.warmLaps); err != nil {
			return out, fmt.Errorf("lap %d: %w", lap, err)
		}
	}
	results, err := t.results(limit)
	if err != nil {
		return out, err
	}
	out.check(page, results)
	out.Lost = 0 // nobody is alone inside, so nothing is written that others could overwrite
	if out.Errors > 0 {
		return out, nil
	}
	out.Metrics, err = latchMetrics(results[1:], done, s)
	return out, err
}

// latchWork is what was counted over some laps, from the last count-down on.
type latchWork struct{ laps, listening, messages, scripts float64 }

// latchLap does one lap with workers that are ready: the latch is set, all wait, it is counted
// down, all are awake.
func (b *bench) latchLap(ctx context.Context, t team, lap int, name string, done *latchWork, counts bool) error {
	win := window{now(), now() + int64(latchPatience)}
	for _, part := range []struct {
		team  team
		event string
	}{{t[:1], eventReady}, {t[1:], eventProgress}} { // first it is set, then they wait
		if err := part.team.tell(win); err != nil {
			return err
		}
		if err := part.team.heard(ctx, part.event); err != nil {
			return err
		}
	}
	if err := b.quiet(ctx); err != nil {
		return err
	}
	listening, err := subscriptions(ctx, b.rdb, name)
	if err != nil {
		return err
	}
	before, err := b.said(ctx)
	if err != nil {
		return err
	}
	if err := t[0].tell(win); err != nil {
		return err
	}
	if err := t.progress(ctx); err != nil { // it has counted, and they are awake
		return err
	}
	after, err := b.said(ctx)
	if err != nil || !counts {
		return err
	}
	done.laps++
	done.listening += listening
	done.messages += (after.messages - before.messages) * listening
	done.scripts += after.scripts - before.scripts
	return nil
}

func latchMetrics(results []*result, done latchWork, s scenario) (map[string]float64, error) {
	gaps, awake := newHistogram(), int64(0)
	for _, r := range results {
		if err := decode(gaps, r.Gaps); err != nil {
			return nil, err
		}
		awake += r.Handover
	}
	if want := int64(s.processes * s.goroutines * (s.laps - s.warmLaps)); awake != want {
		return nil, fmt.Errorf("%d waits ended, and not %d", awake, want)
	}
	return map[string]float64{
		metricAwakeAll: quantile(gaps, 1), metricAwakeP50: quantile(gaps, 0.5), metricAwakeP99: quantile(gaps, 0.99),
		metricSubscriptions: done.listening / done.laps,
		metricMessages:      done.messages / done.laps,
		metricScriptsEach:   done.scripts / done.laps,
	}, nil
}

// said is what a server has told others so far, and the scripts that it has run. A message counts
// once, however many hear it.
type said struct{ messages, scripts float64 }

func (b *bench) said(ctx context.Context) (s said, err error) {
	stats, err := b.rdb.Info(ctx, "commandstats").Result()
	if err != nil {
		return s, err
	}
	s.scripts = callsOf(stats, scriptCommands...)
	s.messages = callsOf(stats, "publish", "spublish")
	return s, nil
}

// quiet waits until the server runs no commands for a while but those that ask for that.
func (b *bench) quiet(ctx context.Context) error {
	last, same := 0.0, 0
	for same < 5 {
		n, err := commandsRun(ctx, b.rdb)
		if err != nil {
			return err
		}
		if same++; n != last+1 {
			same = 0
		}
		last = n
		if pause(ctx, 20*time.Millisecond); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}
