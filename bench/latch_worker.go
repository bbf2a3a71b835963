package main

import (
	"context"
	"errors"
	"sync"
)

// latcher is the first client of this worker, as one that waits for latches.
func (w *worker) latcher() (latcher, error) {
	l, ok := w.clients[0].(latcher)
	if !ok {
		return nil, errors.New("no latch: " + w.Contender)
	}
	return l, nil
}

// count sets the latch of each lap and counts it down, but for one; when it is told to, it counts
// that down too. It writes the time when it begins to do so into the slot of the lap.
func (w *worker) count(ctx context.Context) (*result, error) {
	l, err := w.latcher()
	if err != nil {
		return nil, err
	}
	for lap := range w.Laps {
		name, at := lapName(w.Name, lap), w.page.slot(lap%pageSlots)
		at.word(wordReleased).Store(0)
		if _, err := w.begin(); err != nil {
			return nil, err
		}
		if err := l.set(ctx, name, latchCount); err != nil {
			return nil, err
		}
		for range latchCount - 1 {
			if err := l.countDown(ctx, name); err != nil {
				return nil, err
			}
		}
		if _, err := w.begin(); err != nil {
			return nil, err
		}
		at.word(wordReleased).Store(uint64(now()))
		if err := l.countDown(ctx, name); err != nil {
			return nil, err
		}
		if err := w.say(eventProgress); err != nil {
			return nil, err
		}
	}
	return &result{}, nil
}

// gather has its goroutines wait for the latch of each lap. It says so when all are about to wait,
// and again when all are awake.
func (w *worker) gather(ctx context.Context) (*result, error) {
	l, err := w.latcher()
	if err != nil {
		return nil, err
	}
	var r result
	all := newTally(window{})
	for lap := range w.Laps {
		win, err := w.begin()
		if err != nil {
			return nil, err
		}
		tallies, err := w.gatherOnce(ctx, l, lap, win)
		if err != nil {
			return nil, err
		}
		if lap < w.WarmLaps {
			continue
		}
		for _, t := range tallies {
			all.gaps.Merge(t.gaps)
			if t.Errors > 0 {
				all.fail(errors.New(t.Error))
			}
			r.Handover += t.Handover
		}
	}
	r.Errors, r.Error = all.Errors, all.Error
	r.Gaps, err = encode(all.gaps)
	return &r, err
}

func (w *worker) gatherOnce(ctx context.Context, l latcher, lap int, win window) ([]*tally, error) {
	limited, cancel := context.WithDeadline(ctx, timeAt(win.To))
	defer cancel()
	tallies := make([]*tally, w.Goroutines)
	var started, awake sync.WaitGroup
	started.Add(len(tallies))
	for i := range tallies {
		t := newTally(win)
		tallies[i] = t
		awake.Go(func() {
			started.Done()
			err := l.wait(limited, lapName(w.Name, lap))
			t.awake(err, int64(w.page.slot(lap%pageSlots).word(wordReleased).Load()))
		})
	}
	started.Wait()
	if err := w.say(eventProgress); err != nil {
		return nil, err
	}
	awake.Wait()
	return tallies, w.say(eventProgress)
}

var errEarly = errors.New("the wait ended before the last count-down had begun")

// awake counts a wait that ended just now, when counted was the moment of the last count-down.
func (t *tally) awake(err error, counted int64) {
	at := now()
	switch {
	case err != nil:
		t.fail(err)
	case counted == 0:
		t.fail(errEarly)
	default:
		t.Handover++
		record(t.gaps, at-counted)
	}
}
