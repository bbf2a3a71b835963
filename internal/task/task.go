// Package task owns background goroutines: who starts one through a [Group] can wait for all of them.
//
// Not promised: that a task ends. Each is bounded by what it does; the group only knows whether they all have.
package task

import (
	"context"
	"fmt"
	"sync"
)

// Group counts running goroutines. The zero value is ready.
type Group struct {
	mu   sync.Mutex
	n    int           // running; guarded by mu
	idle chan struct{} // closed when n falls to 0, nil unless somebody waits; guarded by mu
}

// Go runs f in a goroutine of the group.
func (g *Group) Go(f func()) {
	g.Begin()
	go func() {
		defer g.End()
		f()
	}()
}

// Begin counts the calling goroutine as one of the group until [Group.End], for work that may start others.
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

// Wait returns when no goroutine of the group runs, or with an error that says how many do when ctx ends. Unlike
// sync.WaitGroup it may be called while others still call Go.
func (g *Group) Wait(ctx context.Context) error {
	g.mu.Lock()
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
		return fmt.Errorf("%d background operations still run: %w", g.n, context.Cause(ctx))
	}
}
