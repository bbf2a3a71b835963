// Package queue lets one goroutine of a process at a time deal with the server for a lock's name;
// the others wait here, first in, first out.
//
// Only the goroutine in front competes for the lock or holds it, so 10 000 goroutines that wait for a name
// cost Redis no more than one. A goroutine that leaves gives the front place to the next: so a wake-up is
// passed on when the goroutine that it was meant for has given up. A [Handover] says how the place was
// left; a holder may hand off the lock itself with it.
//
// Not promised: an order between processes, which the server decides.
package queue

import (
	"container/list"
	"context"
	"sync"
)

// Key names a queue: kinds of locks that do not share a protocol do not share a queue, nor do locks on
// other servers.
type Key struct {
	Kind, Name string
	Side       string // of a lock that has several, such as readers and writers; empty: it has one
	Servers    string // if not only the client's own
}

// The methods of a queue take keys by pointer, because ten thousand may wait: a copy in each ticket, and in each frame on
// the way to it, would be too much. A key does not change while somebody waits under it.

// Handover is how the front place came free. A value above [Free] says for how many other clients the lock
// was released: the client must yield to them first.
type Handover int

const (
	// Handed is a place with the lock.
	Handed Handover = -1
	// Together is not a place: all waiters may ask, and none is in front.
	Together Handover = -2
	// Free is a place without the lock, which must be requested.
	Free Handover = 0
)

// Queue holds the places of one client. The zero value is ready.
type Queue struct {
	mu     sync.Mutex   // guards the rest and all that it refers to; never held while waiting
	lines  map[Key]line // of the names whose front place is taken
	closed error        // why waiting has ended
}

// line is the queue of one name: the front, and the waiters behind, oldest first; nil until the first waiter.
type line struct {
	front  any
	behind *list.List
}

// Ticket is the place of a waiter.
type Ticket struct {
	queue *Queue
	key   *Key
	who   any           // the waiter; once ready is closed or the place is left: who was in front until then
	ready chan struct{} // closed, with the queue's mu held, when the waiter has the front place, or never will
	turn  Handover      // set before that, as is
	err   error         // why the waiter never will have it
	entry *list.Element
}

// TryEnter takes the front place if it is free. who is what [Ticket.Ahead] returns to the waiters behind.
func (q *Queue) TryEnter(key *Key, who any) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.enterLocked(key, who)
}

func (q *Queue) enterLocked(key *Key, who any) bool {
	if _, taken := q.lines[*key]; taken {
		return false
	}
	if q.lines == nil {
		q.lines = make(map[Key]line)
	}
	q.lines[*key] = line{front: who}
	return true
}

// Enter takes the front place if it is free, and returns nil. Otherwise it returns a place behind the
// waiters, and who is in front; the caller must call Wait. who is what [Queue.HandOff] passes to takeOver, and
// what [Ticket.Ahead] returns to the waiters behind.
func (q *Queue) Enter(key *Key, who any) (p *Ticket, front any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.enterLocked(key, who) {
		return nil, nil
	}
	return q.lineUpLocked(key, who)
}

// lineUpLocked is not a part of Enter because many may wait for the mutex there, and their stacks are as deep as that.
func (q *Queue) lineUpLocked(key *Key, who any) (p *Ticket, front any) {
	l := q.lines[*key]
	if l.behind == nil {
		l.behind = list.New()
		q.lines[*key] = l
	}
	p = &Ticket{queue: q, key: key, who: who, ready: make(chan struct{}), err: q.closed}
	if p.err != nil {
		close(p.ready)
		return p, l.front
	}
	p.entry = l.behind.PushBack(p)
	return p, l.front
}

// Wait waits for the front place as long as the context and the queue allow. Outcome has the result.
//
// Ten thousand goroutines may be parked here. A goroutine's first stack, 2 KiB, is enough if Wait is called
// near the top of it.
func (p *Ticket) Wait(ctx context.Context) {
	select {
	case <-p.ready:
	case <-ctx.Done():
		p.leave(context.Cause(ctx))
	}
}

// Outcome is how the wait ended: without an error the caller has the front place. Otherwise the error is the
// cause of the context, or why the queue was closed, and the place has been given up.
//
// Handed may come with an error, if the context ended at the moment of the hand-off: then the caller has the
// place and the lock, and must give up both.
func (p *Ticket) Outcome() (Handover, error) { return p.turn, p.err }

// Ahead is who was in front when the wait ended without the place, or until the place came free. Call it
// after Wait.
func (p *Ticket) Ahead() any { return p.who }

// leave gives up a place for a reason.
func (p *Ticket) leave(reason error) {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-p.ready: // handed off at the moment we gave up: pass it on, or no waiter would ever get it
		if p.err == nil && p.turn >= Free {
			q.leaveLocked(p.key, p.turn)
		}
	default:
		l := q.lines[*p.key]
		l.behind.Remove(p.entry)
		p.who = l.front
	}
	p.err = reason
}

// Close ends all waits, present and later ones, for a reason. (Rejected: each waiter watches the context of
// its client. That costs each a hundred bytes, and the time to watch one more channel.)
func (q *Queue) Close(reason error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = reason
	for _, l := range q.lines {
		for l.behind != nil && l.behind.Len() > 0 {
			p := l.behind.Remove(l.behind.Front()).(*Ticket)
			p.err = reason
			close(p.ready)
		}
	}
}

// Leave gives the front place to the waiter that has waited longest, if there is one. Only the owner of the
// place may call it. turn is Free or above.
func (q *Queue) Leave(key *Key, turn Handover) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leaveLocked(key, turn)
}

// Dissolve gives up the front place and tells all waiters to ask, [Together].
func (q *Queue) Dissolve(key *Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[*key]
	delete(q.lines, *key)
	for l.behind != nil && l.behind.Len() > 0 {
		p := l.behind.Remove(l.behind.Front()).(*Ticket)
		p.who, p.turn = l.front, Together
		close(p.ready)
	}
}

// HandOff gives up the front place together with the lock, if the waiter that has waited longest can
// take it over. takeOver is called with the mutex held, and must neither block nor call the queue. Without a
// waiter, or if takeOver refuses, nothing happens.
func (q *Queue) HandOff(key *Key, takeOver func(who any) bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	behind := q.lines[*key].behind
	if behind == nil || behind.Len() == 0 || !takeOver(behind.Front().Value.(*Ticket).who) {
		return false
	}
	q.leaveLocked(key, Handed)
	return true
}

func (q *Queue) leaveLocked(key *Key, turn Handover) {
	l := q.lines[*key]
	if l.behind == nil || l.behind.Len() == 0 {
		delete(q.lines, *key)
		return
	}
	p := l.behind.Remove(l.behind.Front()).(*Ticket)
	p.who, l.front = l.front, p.who
	q.lines[*key] = l
	p.turn = turn
	close(p.ready)
}

// InLine is how many places a name has, of all kinds: in front, and behind.
func (q *Queue) InLine(name string) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, l := range q.lines {
		if key.Name != name {
			continue
		}
		if n++; l.behind != nil {
			n += l.behind.Len()
		}
	}
	return n
}

// Front is who is in front; nil if the place is free.
func (q *Queue) Front(key *Key) any {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lines[*key].front
}

// Waiting is how many waiters are behind the front place.
func (q *Queue) Waiting(key *Key) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[*key]; l.behind != nil {
		return l.behind.Len()
	}
	return 0
}
