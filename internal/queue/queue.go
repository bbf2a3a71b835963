// Package queue lets one goroutine of a process at a time deal with the server for a lock's name; the others wait here,
// first in, first out.
//
// The one in front (it competes for the lock or holds it) is the only one that the server ever sees, so 10 000
// goroutines that wait for a name cost Redis no more than one. Leaving hands the place to the next: that is how a
// wake-up is passed on when the goroutine that it was meant for has given up. With the place goes word of how it was left,
// a [Turn]; a holder may leave the lock itself with it.
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

// Turn is how the front place came free for the one who has it now.
type Turn int

const (
	// Free is a place that nobody had, or that was left: the lock has to be asked for.
	Free Turn = iota
	// Yielded is a place whose lock was left to other clients: they are to be let go first.
	Yielded
	// Handed is a place with the lock.
	Handed
)

// Queue holds the places of one client. The zero value is ready.
type Queue struct {
	mu    sync.Mutex         // guards lines and all that hangs from it; never held while waiting
	lines map[Key]*list.List // a name somebody is in front of -> those behind, oldest first; nil until somebody waits
}

// place is one that waits.
type place struct {
	ready chan struct{} // closed, with the queue's mu held, when the front place is theirs
	turn  Turn          // set before that
	who   any
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
// use it is the caller's decision. who is what [Queue.Hand] shows to the one that leaves.
//
// Handed comes with an error too, if the context ended in the moment that the lock was handed over: then the caller has the place
// and the lock, and has to give up both.
func (q *Queue) Enter(ctx, client context.Context, key Key, who any) (Turn, error) {
	q.mu.Lock()
	if q.enterLocked(key) {
		q.mu.Unlock()
		return Free, nil
	}
	p := &place{ready: make(chan struct{}), who: who}
	line := q.lines[key]
	if line == nil {
		line = list.New()
		q.lines[key] = line
	}
	e := line.PushBack(p)
	q.mu.Unlock()

	select {
	case <-p.ready:
		return p.turn, nil
	case <-ctx.Done():
	case <-client.Done():
		ctx = client
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-p.ready: // handed over in the moment we gave up: pass it on, or nobody would ever move again
		if p.turn != Handed && !control.PassOn.Off() {
			q.leaveLocked(key, p.turn)
		}
	default:
		line.Remove(e)
	}
	return p.turn, context.Cause(ctx)
}

// Leave gives up the front place, to the one who has waited longest if there is one. Only who has the place may call it. turn is
// Free or Yielded.
func (q *Queue) Leave(key Key, turn Turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leaveLocked(key, turn)
}

// Hand gives up the front place together with the lock, if the one who has waited longest can take it: give is asked with the
// mutex held, and must neither block nor call the queue. Without anybody, or if give refuses, nothing happens.
func (q *Queue) Hand(key Key, give func(who any) bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.lines[key]
	if line == nil || line.Len() == 0 || !give(line.Front().Value.(*place).who) {
		return false
	}
	q.leaveLocked(key, Handed)
	return true
}

func (q *Queue) leaveLocked(key Key, turn Turn) {
	line := q.lines[key]
	if line == nil || line.Len() == 0 {
		delete(q.lines, key)
		return
	}
	p := line.Remove(line.Front()).(*place)
	p.turn = turn
	close(p.ready)
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
