// Package queue lets one goroutine of a process at a time deal with the server for a lock's name;
// the others wait here, first in, first out.
//
// The one in front (it competes for the lock or holds it) is the only one that the server ever
// sees, so 10 000 goroutines that wait for a name cost Redis no more than one. Leaving hands the
// place to the next: that is how a wake-up is passed on when the goroutine that it was meant for
// has given up. With the place goes word of how it was left, a [Handover]; a holder may leave the
// lock itself with it.
//
// Not promised: an order between processes; that is the server's business.
package queue

import (
	"container/list"
	"context"
	"sync"
)

// Key says what is queued for: kinds of locks that do not share a protocol do not share a queue,
// nor do locks on other servers.
type Key struct {
	Kind, Name string
	Side       string // of a lock that has several, as one to read and one to write; empty: it has one
	Servers    string // where they are not those of the client alone
}

// Handover is how the front place came free for the one who has it now. One above [Free] says to
// how many other clients the lock was left: they are to be let go first.
type Handover int

const (
	// Handed is a place with the lock.
	Handed Handover = -1
	// Together is no place: all who wait may ask, and nobody is in front.
	Together Handover = -2
	// Free is a place that nobody had, or that was left: the lock has to be asked for.
	Free Handover = 0
)

// Queue holds the places of one client. The zero value is ready.
type Queue struct {
	mu     sync.Mutex   // guards the rest and all that hangs from it; never held while waiting
	lines  map[Key]line // of the names that somebody is in front of
	closed error        // why nobody waits any more
}

// line is one name's: who is in front, and those behind, oldest first; nil until somebody waits.
type line struct {
	front  any
	behind *list.List
}

// Ticket is the place of one who waits.
type Ticket struct {
	queue *Queue
	key   Key
	who   any           // once it is ready or left: who was in front until then
	ready chan struct{} // closed, with the queue's mu held, when the front place is theirs, or never will be
	turn  Handover      // set before that, as is
	err   error         // why it never will be theirs
	entry *list.Element
}

// TryEnter takes the front place if nobody has it. who is what those behind are told of it: see
// [Ticket.Ahead].
func (q *Queue) TryEnter(key Key, who any) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.enterLocked(key, who)
}

func (q *Queue) enterLocked(key Key, who any) bool {
	if _, taken := q.lines[key]; taken {
		return false
	}
	if q.lines == nil {
		q.lines = make(map[Key]line)
	}
	q.lines[key] = line{front: who}
	return true
}

// Enter takes the front place if nobody has it, and returns nil. Else it returns a place behind
// those who wait, and who is in front; the caller has to call Wait. who is what [Queue.Hand] shows to the one that
// leaves, and what those behind are told.
func (q *Queue) Enter(key Key, who any) (p *Ticket, front any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.enterLocked(key, who) {
		return nil, nil
	}
	l := q.lines[key]
	if l.behind == nil {
		l.behind = list.New()
		q.lines[key] = l
	}
	p = &Ticket{queue: q, key: key, who: who, ready: make(chan struct{}), err: q.closed}
	if p.err != nil {
		close(p.ready)
		return p, l.front
	}
	p.entry = l.behind.PushBack(p)
	return p, l.front
}

// Wait waits for the front place as long as the context and the queue allow. What came of it is in
// Outcome.
//
// Ten thousand may be parked here. A goroutine's first stack, 2 KiB, does if Wait is called near
// the top of it.
func (p *Ticket) Wait(ctx context.Context) {
	select {
	case <-p.ready:
	case <-ctx.Done():
		p.leave(context.Cause(ctx))
	}
}

// Outcome is how the wait ended: without an error the front place is the caller's. Else the error
// is the cause of the context that ended without it, or why the queue was closed, and the place has
// been given up.
//
// Handed comes with an error too, if the context ended in the moment that the lock was handed over:
// then the caller has the place and the lock, and has to give up both.
func (p *Ticket) Outcome() (Handover, error) { return p.turn, p.err }

// Ahead is who was in front when the wait ended without the place, or until the place came free.
// For who has waited, in vain or not.
func (p *Ticket) Ahead() any { return p.who }

// leave gives up a place for a reason.
func (p *Ticket) leave(reason error) {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-p.ready: // handed over in the moment we gave up: pass it on, or nobody would ever move again
		if p.err == nil && p.turn >= Free {
			q.leaveLocked(p.key, p.turn)
		}
	default:
		l := q.lines[p.key]
		l.behind.Remove(p.entry)
		p.who = l.front
	}
	p.err = reason
}

// Close ends the wait of all who wait, for a reason, and of all who come after them. (Each of them
// could look at the context of its client too. That would cost everybody a hundred bytes, and the
// time to watch one more channel.)
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

// Leave gives up the front place, to the one who has waited longest if there is one. Only who has
// the place may call it. turn is Free or above.
func (q *Queue) Leave(key Key, turn Handover) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leaveLocked(key, turn)
}

// Dissolve gives up the front place to nobody: all who wait are told to ask, [Together].
func (q *Queue) Dissolve(key Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	delete(q.lines, key)
	for l.behind != nil && l.behind.Len() > 0 {
		p := l.behind.Remove(l.behind.Front()).(*Ticket)
		p.who, p.turn = l.front, Together
		close(p.ready)
	}
}

// Hand gives up the front place together with the lock, if the one who has waited longest can take
// it: give is asked with the mutex held, and must neither block nor call the queue. Without
// anybody, or if give refuses, nothing happens.
func (q *Queue) Hand(key Key, give func(who any) bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	behind := q.lines[key].behind
	if behind == nil || behind.Len() == 0 || !give(behind.Front().Value.(*Ticket).who) {
		return false
	}
	q.leaveLocked(key, Handed)
	return true
}

func (q *Queue) leaveLocked(key Key, turn Handover) {
	l := q.lines[key]
	if l.behind == nil || l.behind.Len() == 0 {
		delete(q.lines, key)
		return
	}
	p := l.behind.Remove(l.behind.Front()).(*Ticket)
	p.who, l.front = l.front, p.who
	q.lines[key] = l
	p.turn = turn
	close(p.ready)
}

// InLine is how many have a place for a name, of all kinds: in front, and behind.
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

// Front is who is in front; nil: nobody is.
func (q *Queue) Front(key Key) any {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lines[key].front
}

// Waiting is how many wait behind the one in front.
func (q *Queue) Waiting(key Key) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[key]; l.behind != nil {
		return l.behind.Len()
	}
	return 0
}
