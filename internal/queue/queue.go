// Package queue lets one goroutine of a process at a time deal with the server for a lock's name; the others wait here,
// first in, first out.
//
// The one in front (it competes for the lock or holds it) is the only one that the server ever sees, so 10 000
// goroutines that wait for a name cost Redis no more than one. Leaving hands the place to the next: that is how a
// wake-up is passed on when the goroutine that it was meant for has given up.
//
// Not promised: an order between processes; that is the server's business.
package queue

import (
	"container/list"
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/internal/control"
)

// Key says what is queued for: kinds of locks that do not share a protocol do not share a queue.
type Key struct{ Kind, Name string }

// Queue holds the places of one client. The zero value is ready.
type Queue struct {
	mu    sync.Mutex         // guards lines and all that hangs from it; never held while waiting
	lines map[Key]*list.List // a name somebody is in front of -> those behind, oldest first; nil until somebody waits
}

// TryEnter takes the front place if nobody has it.
func (q *Queue) TryEnter(key Key) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.enterLocked(key)
}

func (q *Queue) enterLocked(key Key) bool {
	if _, taken := q.lines[key]; taken {
		return false
	}
	if q.lines == nil {
		q.lines = make(map[Key]*list.List)
	}
	q.lines[key] = nil
	return true
}

// Enter takes the front place, waiting for it as long as both contexts allow: the caller's and the one of its client. (Two,
// because one derived from both would cost every waiter half a kilobyte.) It returns nil with the place taken, or the
// cause of the context that ended without it. A context that is done already still gets a place that is free: whether to
// use it is the caller's decision.
func (q *Queue) Enter(ctx, client context.Context, key Key) error {
	q.mu.Lock()
	if q.enterLocked(key) {
		q.mu.Unlock()
		return nil
	}
	ready := make(chan struct{}) // closed by Leave, with mu held, when the place is ours
	line := q.lines[key]
	if line == nil {
		line = list.New()
		q.lines[key] = line
	}
	place := line.PushBack(ready)
	q.mu.Unlock()

	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	case <-client.Done():
		ctx = client
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-ready: // handed over in the moment we gave up: pass it on, or nobody would ever move again
		if !control.PassOn.Off() {
			q.leaveLocked(key)
		}
	default:
		line.Remove(place)
	}
	return context.Cause(ctx)
}

// Leave gives up the front place, to the one who has waited longest if there is one. Only who has the place may call it.
func (q *Queue) Leave(key Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leaveLocked(key)
}

func (q *Queue) leaveLocked(key Key) {
	line := q.lines[key]
	if line == nil || line.Len() == 0 {
		delete(q.lines, key)
		return
	}
	close(line.Remove(line.Front()).(chan struct{}))
}

// Waiting is how many wait behind the one in front.
func (q *Queue) Waiting(key Key) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if line := q.lines[key]; line != nil {
		return line.Len()
	}
	return 0
}
