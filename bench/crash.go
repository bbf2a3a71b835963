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
	m, err := t[1].await(limit, eventResult)
	if err != nil {
		return out, err
	}
	out.Metrics = map[string]float64{metricTakeover: seconds(m.Result.At - killed)}
	out.check(page, []*result{{Entries: 1}, m.Result}) // the holder could not say what it counted
	if m.Result.At < killed {
		out.Error = "the waiter had the lock before its holder was killed"
	}
	return out, nil
}
