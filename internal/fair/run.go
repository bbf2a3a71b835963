package fair

import "github.com/holdfast-go/holdfast/internal/engine"

// run are waiters of this client that stand directly behind each other in the queue, and have the
// lock one after another, see lua/part/queue.lua. The one who has the lock uses it.
type run struct {
	list *waitlist
	next []string // owners without their client
	size int
}

var _ engine.Run = (*run)(nil)

// runOf returns nil if there is nobody in the run.
func (l *waitlist) runOf(next []string) engine.Run {
	if len(next) == 0 {
		return nil
	}
	return &run{list: l, next: next, size: len(next)}
}

// Len is [engine.Run.Len].
func (r *run) Len() int { return r.size }

// Next is [engine.Run.Next]. Who has left is passed over: it has given its place back, or does so.
// The run ends before a waiter of which a question is under way, or that has an answer. It would
// ask for a place that it needs no more. It keeps its place, and the release hands the lock to it.
func (r *run) Next(give func(*engine.Acquisition) bool) bool {
	for len(r.next) > 0 {
		p := r.list.waiter(r.list.lists.client.ID() + ":" + r.next[0])
		r.next = r.next[1:] // before the lock is given: then the run is another's
		// (Without the mutex: this calls the caller's context.)
		if p != nil && p.acquisition.Over() == nil {
			return p.give(give)
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

// give hands the lock to a waiter, if that can take it.
func (p *waiter) give(give func(*engine.Acquisition) bool) bool {
	l := p.list
	l.lists.mu.Lock()
	defer l.lists.mu.Unlock()
	ready := l.waiters[p.owner] == p && p.asking == nil && p.result == nil && p.handed == nil && !p.taking &&
		!p.entering && !p.given
	if !ready || !give(p.acquisition) {
		return false
	}
	p.given = true
	p.wakeLocked()
	return true
}

// isGiven reports whether a run has handed the lock on to the waiter.
func (p *waiter) isGiven() bool {
	p.list.lists.mu.Lock()
	defer p.list.lists.mu.Unlock()
	return p.given
}
