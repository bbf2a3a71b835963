package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// crashPatience is how long a waiter waits for the lock of a holder that was killed; no lease of
// the contenders is longer.
const crashPatience = 20 * time.Second

// measureCrash kills a process that holds, at a moment that does not go with the rhythm of its
// renewals, and measures how long another process then waits.
func measureCrash(ctx context.Context, b *bench, s scenario, c contender, name string) (out sample, err error) {
	page, path, remove, err := b.newPage()
	if err != nil {
		return out, err
	}
	defer remove()
	holder, waiter := b.job(s, c, name, taskHold, path), b.job(s, c, name, taskAwait, path)
	waiter.Process = 1
	t, err := assemble(ctx, b.command(c), holder, waiter)
	if err != nil {
		return out, err
	}
	defer t.stop()
	limit, cancel := context.WithTimeout(ctx, crashPatience+tearDown)
	defer cancel()
	win := window{now(), now() + int64(crashPatience)}
	for _, p := range t { // the holder first
		if err := p.tell(win); err != nil {
			return out, err
		}
		if _, err := p.await(limit, eventProgress); err != nil {
			return out, err
		}
	}
	pause(ctx, 500*time.Millisecond+rand.N(time.Second))
	page.condemn(0)
	killed := now()
	if err := t[0].cmd.Process.Kill(); err != nil {
		return out, fmt.Errorf("the holder ended before it was killed: %w", err)
	}
	t[0].stop() // waits for its end
	earliest, latest, err := b.leaseEnds(limit, c, name)
	if err != nil {
		return out, err
	}
	m, err := t[1].await(limit, eventResult)
	if err != nil {
		return out, err
	}
	out.Metrics = map[string]float64{metricTakeover: seconds(m.Result.At - killed)}
	if earliest > 0 {
		out.Metrics[metricAfterLease] = seconds(m.Result.At - latest)
	}
	out.check(page, []*result{{Entries: 1}, m.Result}) // the holder could not say what it counted
	switch {
	case m.Result.At < killed:
		out.Error = "the waiter had the lock before its holder was killed"
	case earliest > 0 && m.Result.At < earliest:
		out.Error = "the waiter had the lock before the lease of its holder had ended"
	}
	return out, nil
}

// leaseEnds is between which two moments the lease of a holder ends that is dead. 0: its name is no
// key with a time to live.
func (b *bench) leaseEnds(ctx context.Context, c contender, name string) (earliest, latest int64, err error) {
	if c.group == another {
		return 0, 0, nil
	}
	// Twice: what the holder sent last may be executed after the first answer, and not after the
	// second.
	for range 2 {
		before := now()
		left, err := b.rdb.PTTL(ctx, name).Result()
		if err != nil {
			return 0, 0, err
		}
		if left <= 0 {
			return 0, 0, nil
		}
		// The server counts whole milliseconds, and a key lives through its last one.
		earliest, latest = before+int64(left-time.Millisecond), now()+int64(left+time.Millisecond)
	}
	return earliest, latest, nil
}
