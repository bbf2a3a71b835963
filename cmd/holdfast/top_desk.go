package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/live"
)

// desk asks the servers for the screen, whose own loop never waits for one. Its goroutines end with the
// context, and run joins them. (Rejected: commands of the library for screens, whose goroutines nobody
// joins.)
type desk struct {
	pic    *live.Picture
	every  time.Duration
	want   atomic.Pointer[[]live.Key] // what is on the screen
	paused atomic.Bool
	now    chan struct{}                      // something else is on the screen
	jobs   chan func(context.Context) tea.Msg // what the user has asked for
}

func newDesk(pic *live.Picture, every time.Duration) *desk {
	return &desk{pic: pic, every: every, now: make(chan struct{}, 1), jobs: make(chan func(context.Context) tea.Msg, 1)}
}

// refreshMsg tells the screen to show what there is now.
type refreshMsg struct{}

// run sends to the screen until the context ends.
func (d *desk) run(ctx context.Context, send func(tea.Msg)) {
	var all sync.WaitGroup
	all.Go(func() { d.pic.Find(ctx) })
	all.Go(func() { d.refresh(ctx, send) })
	all.Go(func() {
		for {
			select {
			case job := <-d.jobs:
				send(job(ctx))
			case <-ctx.Done():
				return
			}
		}
	})
	all.Wait()
}

func (d *desk) refresh(ctx context.Context, send func(tea.Msg)) {
	const soon = 50 * time.Millisecond // at the beginning, until there is something to look at
	for ctx.Err() == nil {
		keys := d.want.Load()
		if keys != nil && !d.paused.Load() {
			_ = d.pic.Look(ctx, *keys) // the status has the error
		}
		send(refreshMsg{})
		pause := d.every
		if keys == nil {
			pause = min(pause, soon)
		}
		select {
		case <-time.After(pause):
		case <-d.now:
		case <-ctx.Done():
		}
	}
}

// shows says what is on the screen. If the user has gone there, it is looked at soon.
func (d *desk) shows(keys []live.Key, soon bool) {
	if len(keys) == 0 {
		return
	}
	d.want.Store(&keys)
	if soon {
		select {
		case d.now <- struct{}{}:
		default:
		}
	}
}

// do runs a job, if none is waiting to be run.
func (d *desk) do(job func(context.Context) tea.Msg) bool {
	select {
	case d.jobs <- job:
		return true
	default:
		return false
	}
}

// pause stops all questions but those that the user asks.
func (d *desk) pause(on bool) {
	d.paused.Store(on)
	d.pic.Pause(on)
}
