package telemetry

import (
	"sync"
	"time"
)

// set is what has begun and not ended, oldest first. What begins is appended, so the oldest is found
// without a search, also among a hundred thousand.
type set struct {
	mu          sync.Mutex // guards the rest
	first, last *item
	size        int
}

// item is one of a set. Its start never changes.
type item struct {
	in         *set
	start      time.Time
	prev, next *item
	ended      bool // guarded by the set's mutex
}

func (s *set) begin(now time.Time) *item {
	i := &item{in: s, start: now}
	s.mu.Lock()
	defer s.mu.Unlock()
	i.prev = s.last
	if s.last == nil {
		s.first = i
	} else {
		s.last.next = i
	}
	s.last = i
	s.size++
	return i
}

// end takes an item out. A second call changes nothing, nor does one of a nil item.
func (i *item) end() {
	if i == nil {
		return
	}
	s := i.in
	s.mu.Lock()
	defer s.mu.Unlock()
	if i.ended {
		return
	}
	i.ended = true
	if i.prev == nil {
		s.first = i.next
	} else {
		i.prev.next = i.next
	}
	if i.next == nil {
		s.last = i.prev
	} else {
		i.next.prev = i.prev
	}
	i.prev, i.next = nil, nil
	s.size--
}

// state returns how many there are, and the age of the oldest; 0 if there is none.
func (s *set) state(now time.Time) (size int, oldest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first != nil {
		oldest = max(now.Sub(s.first.start), 0)
	}
	return s.size, oldest
}
