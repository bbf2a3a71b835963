package engine

import (
	"context"
	"sync"
)

// opTurn lets one operation at a time talk to the server about a grant, because each of them tells the server an
// absolute hold count. It is a mutex whose caller can stop waiting by a context. The channel for that is made only
// when somebody has to wait.
type opTurn struct {
	mu      sync.Mutex // guards the rest
	taken   bool
	waiting int32
	next    chan struct{} // gets one value for each turn that is passed on to one of the waiting
}

// tryTake takes the turn if it is free.
func (t *opTurn) tryTake() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken {
		return false
	}
	t.taken = true
	return true
}

// take takes the turn, and waits for it until ctx ends.
func (t *opTurn) take(ctx context.Context) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	t.waiting++
	if t.next == nil {
		t.next = make(chan struct{}, 1)
	}
	next := t.next
	t.mu.Unlock()
	select {
	case <-next:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting > 0 {
		t.waiting--
		return context.Cause(ctx)
	}
	<-next // it was passed on meanwhile, to this one
	return nil
}

// pass gives the turn to one of those who wait, or frees it.
func (t *opTurn) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == 0 {
		t.taken = false
		return
	}
	t.waiting--
	t.next <- struct{}{}
}
