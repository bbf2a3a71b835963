package simulation

import (
	"sync"
	"time"
)

// lane is one direction of a connection: messages that arrive in the order in which they were sent,
// each after its time.
type lane struct {
	hold  func() time.Duration // by how much longer the network keeps what is due
	stale time.Duration        // how long a message may be under way that was not sent to be longer

	mu       sync.Mutex // guards the rest
	messages []message
	ended    bool          // no more will be sent
	changed  chan struct{} // closed at the next change, nil unless somebody waits for it
}

type message struct {
	data []byte
	at   time.Time // when it arrives
	last time.Time // after that it does not any more
}

const idle = time.Hour

// send puts a message on its way. It does not overtake.
func (l *lane) send(data []byte, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	now := time.Now()
	at := now.Add(delay)
	if n := len(l.messages); n > 0 && l.messages[n-1].at.After(at) {
		at = l.messages[n-1].at
	}
	l.messages = append(l.messages, message{data, at, latest(at, now.Add(l.stale))})
	l.changeLocked()
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// end lets what is on its way arrive, and nothing after it.
func (l *lane) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.changeLocked()
}

// clear loses what is on its way.
func (l *lane) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = nil
}

// change has who waits look again.
func (l *lane) change() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changeLocked()
}

func (l *lane) changeLocked() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// watch is for who is going to look and then wait: what changes in between is not missed.
func (l *lane) watch() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

func wait(changed <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

func (l *lane) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.messages) == 0
}

// dueLocked is in what time the first message is there, 0 if it is.
func (l *lane) dueLocked() time.Duration {
	if len(l.messages) == 0 {
		return idle
	}
	m := &l.messages[0]
	d := time.Until(m.at)
	if d > 0 {
		return d
	}
	if time.Now().After(m.last) { // with all that is behind it: a stream has no gaps
		l.messages, l.ended = nil, true
		return idle
	}
	if d = l.hold(); d > 0 {
		m.at = time.Now().Add(d)
	}
	return max(d, 0)
}

// take moves what has arrived into p. With nothing it returns when the next message is due.
func (l *lane) take(p []byte) (n int, due time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n < len(p) {
		if due = l.dueLocked(); due > 0 {
			return n, due
		}
		m := &l.messages[0]
		k := copy(p[n:], m.data)
		n += k
		if m.data = m.data[k:]; len(m.data) == 0 {
			l.messages = l.messages[1:]
		}
	}
	return n, 0
}

// next waits for the next message to arrive. It is false when the lane has ended.
func (l *lane) next() ([]byte, bool) {
	for {
		changed := l.watch()
		data, due, over := l.pop()
		if data != nil || over {
			return data, !over
		}
		wait(changed, due)
	}
}

func (l *lane) pop() (data []byte, due time.Duration, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if due = l.dueLocked(); due > 0 {
		return nil, due, l.ended && len(l.messages) == 0
	}
	data = l.messages[0].data
	l.messages = l.messages[1:]
	return data, 0, false
}
