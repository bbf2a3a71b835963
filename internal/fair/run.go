package fair

import "github.com/holdfast-go/holdfast/internal/engine"

// run has waiters of this client that stand directly behind each other in the queue, and get the lock
// one after another, see lua/part/queue.lua. The waiter that has the lock uses the run.
type run struct {
	list *waitlist
	next []string // owners without their client
	size int
}

var _ engine.Run = (*run)(nil)

// runOf returns nil if the run is empty.
func (l *waitlist) runOf(next []string) engine.Run {
	if len(next) == 0 {
		return nil
	}
	return &run{list: l, next: next, size: len(next)}
}

// Len is [engine.Run.Len].
func (r *run) Len() int { return r.size }

// Next is [engine.Run.Next]. It skips waiters that have left: they give their places back themselves.
// The run ends before a waiter that has a request under way, or an answer: it would ask for a place that
// it no longer needs. It keeps its place, and the release hands the lock to it.
func (r *run) Next(handOff func(*engine.Acquisition) bool) bool {
	for len(r.next) > 0 {
		p := r.list.waiter(r.list.lists.client.ID() + ":" + r.next[0])
		r.next = r.next[1:] // before the hand-off: then the run belongs to another waiter
		// (Without the mutex: this calls the caller's context.)
		if p != nil && p.acquisition.Over() == nil {
			return p.handOff(handOff)
		}
	}
	return false
}

// waiter returns the waiter of an owner, nil if it has left.
func (l *waitlist) waiter(owner string) *waiter {
	l.lists.mu.Lock()
	defer l.lists.mu.Unlock()
	return l.waiters[owner]
}

// handOff hands the lock to a waiter, if the waiter can take it.
func (p *waiter) handOff(handOff func(*engine.Acquisition) bool) bool {
	l := p.list
	l.lists.mu.Lock()
	defer l.lists.mu.Unlock()
	ready := l.waiters[p.owner] == p && p.request == nil && p.result == nil && p.granted == nil && !p.taking &&
		!p.entering && !p.takenOver
	if !ready || !handOff(p.acquisition) {
		return false
	}
	p.takenOver = true
	p.wakeLocked()
	return true
}

// isTakenOver reports whether a run has handed the lock off to the waiter.
func (p *waiter) isTakenOver() bool {
	p.list.lists.mu.Lock()
	defer p.list.lists.mu.Unlock()
	return p.takenOver
}
