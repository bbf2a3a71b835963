// Package task owns background goroutines: who starts one through a [Group] can wait for all of
// them.
//
// Not promised: that a task ends. Each is bounded by what it does; the group only knows whether
// they all have.
package task

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// linger is for how long a goroutine of [Group.Often] waits for another task.
const linger = 50 * time.Millisecond

// Group counts running goroutines. The zero value is ready.
type Group struct {
	once  sync.Once
	tasks chan func()   // taken by those who linger
	home  chan struct{} // closed when nobody is to linger any more

	mu   sync.Mutex
	n    int           // running; guarded by mu
	idle chan struct{} // closed when n falls to 0, nil unless somebody waits; guarded by mu
	over bool          // home is closed; guarded by mu
}

func (g *Group) init() { g.tasks, g.home = make(chan func()), make(chan struct{}) }

// Go runs f in a goroutine of the group.
func (g *Group) Go(f func()) {
	g.Begin()
	go func() {
		defer g.End()
		f()
	}()
}

// Often is Go for tasks that come one after another. Their goroutines stay for a moment, in case
// there is another one: what is asked of go-redis needs a stack that has to grow several times, and
// to grow it for each command was a tenth of the time that a lock of five masters takes.
func (g *Group) Often(f func()) {
	g.once.Do(g.init)
	select {
	case g.tasks <- f:
	default:
		g.Begin()
		go g.work(f)
	}
}

func (g *Group) work(f func()) {
	defer g.End()
	f()
	timer := time.NewTimer(linger)
	defer timer.Stop()
	for {
		select {
		case f = <-g.tasks:
			f()
			timer.Reset(linger)
		case <-timer.C:
			return
		case <-g.home:
			return
		}
	}
}

// Begin counts the calling goroutine as one of the group until [Group.End], for work that may start
// others.
func (g *Group) Begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n++
}

// End is the end of what Begin began.
func (g *Group) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Wait returns when no goroutine of the group runs, or with an error that says how many do when ctx
// ends. Unlike sync.WaitGroup it may be called while others still call Go. From then on none
// lingers.
func (g *Group) Wait(ctx context.Context) error {
	g.once.Do(g.init)
	g.mu.Lock()
	if !g.over {
		g.over = true
		close(g.home)
	}
	if g.n == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		return fmt.Errorf("background operations still run, %d of them: %w", g.n, context.Cause(ctx))
	}
}
