package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// tooManyErrors ends a goroutine: what fails at once would otherwise fail a million times.
const tooManyErrors = 100

// pairs locks and unlocks in every goroutine until the window ends.
func (w *worker) pairs(ctx context.Context) (*result, error) {
	lockers, slots := make([]locker, w.Goroutines), make([]slot, w.Goroutines)
	for i := range lockers {
		var err error
		if lockers[i], slots[i], err = w.locker(ctx, i); err != nil {
			return nil, err
		}
	}
	win, err := w.begin()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(ctx, timeAt(win.To))
	defer cancel()
	tallies := make([]*tally, w.Goroutines)
	var group sync.WaitGroup
	cpu := cpuUsed()
	for i := range lockers {
		tallies[i] = newTally(win)
		g := goroutine{me: newParticipant(w.Process, i), lock: lockers[i], slot: slots[i], section: w.Section,
			tally: tallies[i], turns: w.Turns}
		group.Go(func() { g.run(ctx) })
	}
	group.Wait()
	r, err := merge(tallies)
	r.CPU = cpuUsed() - cpu
	return r, err
}

// goroutine is one competitor.
type goroutine struct {
	me      participant
	lock    locker
	slot    slot
	section time.Duration
	tally   *tally
	turns   int // how many processes take the lock in turns; 0: they do not
}

func (g *goroutine) run(ctx context.Context) {
	for ctx.Err() == nil && g.tally.Errors < tooManyErrors {
		g.pair(ctx)
	}
}

func (g *goroutine) pair(ctx context.Context) {
	if g.turns > 0 {
		if !g.slot.page.awaitTurn(ctx, g.me.process(), g.turns) {
			return
		}
		defer g.slot.page.passTurn()
	}
	began := now()
	unlock, token, err := g.lock(ctx)
	granted := now()
	if err != nil {
		g.tally.Longest = max(g.tally.Longest, granted-began)
		if ctx.Err() == nil {
			g.tally.fail(err)
		}
		return
	}
	before := g.slot.enter(g.me, token)
	if g.section > 0 {
		pause(context.Background(), g.section) // the section is as long at the end of the window too
	}
	g.slot.leave(g.me)
	if err := unlock(); err != nil {
		g.tally.fail(errors.Join(errors.New("unlock failed"), err))
	}
	g.tally.grant(g.me, began, granted, before)
}
