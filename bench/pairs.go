package main

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// tooManyErrors ends a goroutine: what fails at once would otherwise fail a million times.
const tooManyErrors = 100

// pairs locks and unlocks in every goroutine until the window ends.
func (w *worker) pairs(ctx context.Context) (*result, error) {
	all := make([]goroutine, w.Goroutines)
	for i := range all {
		var err error
		if all[i], err = w.goroutine(ctx, i); err != nil {
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
	for i := range all {
		g := &all[i]
		tallies[i] = newTally(win)
		g.tally = tallies[i]
		g.tally.aside = g.most > 0 && w.Writers > 0
		group.Go(func() { g.run(ctx) })
	}
	group.Wait()
	r, err := merge(tallies)
	r.CPU = cpuUsed() - cpu
	return r, err
}

// goroutine makes the i-th competitor of this worker, without its tally.
func (w *worker) goroutine(ctx context.Context, i int) (g goroutine, err error) {
	g = goroutine{me: newParticipant(w.Process, i), section: w.Section, turns: w.Turns, most: w.Permits}
	if w.Readers && i >= w.Writers {
		g.most = math.MaxInt
	} else if w.Readers {
		g.pause = w.Pause
	}
	g.lock, g.slot, err = w.locker(ctx, i)
	return g, err
}

// goroutine is one competitor.
type goroutine struct {
	me      participant
	lock    locker
	slot    slot
	section time.Duration
	tally   *tally
	turns   int // how many processes take the lock in turns; 0: they do not
	most    int // how many may be inside together; 0: it is alone there
	pause   time.Duration
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
	before := g.enter(token)
	if g.section > 0 {
		pause(context.Background(), g.section) // the section is as long at the end of the window too
	}
	g.leave()
	if err := unlock(); err != nil {
		g.tally.fail(errors.Join(errors.New("unlock failed"), err))
	}
	if g.tally.aside {
		g.tally.read(granted, now())
		return
	}
	g.tally.grant(g.me, began, granted, before)
	if g.pause > 0 {
		pause(ctx, g.pause)
	}
}

// enter is called by who has just got the lock. Where several are inside, nobody follows another
// one.
func (g *goroutine) enter(token uint64) (before handover) {
	if g.most == 0 {
		return g.slot.enter(g.me, token)
	}
	if g.most != math.MaxInt {
		token = 0 // those of permits come in the order of the grants, in which their holders need not enter
	}
	g.slot.share(g.most, token)
	return handover{}
}

func (g *goroutine) leave() {
	if g.most > 0 {
		g.slot.unshare()
		return
	}
	g.slot.leave(g.me)
}
