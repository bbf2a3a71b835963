package notify

import (
	"sync"
	"unsafe"
)

// queue passes values to a function, one after the other, in the order in which they came.
type queue[T any] struct {
	start  func(func())
	handle func(v T, dropped int)
	run    func() // takeAll as a value, which would take memory each time

	mu      sync.Mutex // guards the rest; never held while handle runs
	waiting []T        // oldest first, from index first on; earlier elements are empty
	first   int
	dropped int  // since the last one that was handled
	running bool // a goroutine takes them
}

// keepBytes is how many bytes of its array an empty queue keeps. Otherwise a queue whose values come every few
// milliseconds would allocate each time.
const keepBytes = 32 << 10

// newQueue makes a queue to a function. dropped is how many values before this one were dropped:
// there was no room for them, or the function panicked or ended its goroutine. start runs a function
// in a goroutine: there is one while there are values. The owner of start owns it, and it lasts for as
// long as the function blocks.
func newQueue[T any](start func(func()), handle func(v T, dropped int)) *queue[T] {
	q := &queue[T]{start: start, handle: handle}
	q.run = q.takeAll
	return q
}

// put adds a value, unless room values wait already.
func (q *queue[T]) put(v T, room int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting)-q.first >= room {
		q.dropped++
		return
	}
	if q.first > len(q.waiting)/2 && len(q.waiting) == cap(q.waiting) { // instead of growing
		n := copy(q.waiting, q.waiting[q.first:])
		clear(q.waiting[n:])
		q.waiting, q.first = q.waiting[:n], 0
	}
	q.waiting = append(q.waiting, v)
	if !q.running {
		q.running = true
		q.start(q.run)
	}
}

// takeAll handles the waiting values. If the function ends the goroutine, another one goes on.
func (q *queue[T]) takeAll() {
	done := false
	defer func() {
		if !done {
			q.start(q.run)
		}
	}()
	for {
		v, dropped, ok := q.next()
		if !ok {
			done = true
			return
		}
		q.deliver(v, dropped)
	}
}

func (q *queue[T]) next() (v T, dropped int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var none T
	if len(q.waiting) == q.first {
		if q.waiting, q.first, q.running = q.waiting[:0], 0, false; uintptr(cap(q.waiting))*unsafe.Sizeof(none) > keepBytes {
			q.waiting = nil // the array goes too
		}
		return none, 0, false
	}
	v = q.waiting[q.first]
	q.waiting[q.first] = none
	q.first++
	dropped, q.dropped = q.dropped, 0
	return v, dropped, true
}

func (q *queue[T]) deliver(v T, dropped int) {
	arrived := false
	defer func() {
		if arrived {
			return
		}
		_ = recover() // it must not end the process, and cannot be reported
		q.mu.Lock()
		defer q.mu.Unlock()
		q.dropped += dropped + 1
	}()
	q.handle(v, dropped)
	arrived = true
}
