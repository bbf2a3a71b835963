package holdfasttest

import (
	"net"
	"os"
	"sync"
	"time"
)

// stream carries bytes one way between two goroutines. Unlike a net.Pipe it has room for all that
// is written, as the buffers of a socket have, so that nobody who writes waits for somebody to
// read.
type stream struct {
	mu       sync.Mutex // guards the rest
	data     []byte
	end      error // why nothing more comes; what is there can be read all the same
	deadline time.Time
	changed  chan struct{} // closed, and replaced, when something above changes
}

func newStream() *stream { return &stream{changed: make(chan struct{})} }

// Write fails when the stream has ended.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		return 0, s.end
	}
	s.data = append(s.data, p...)
	s.changeLocked()
	return len(p), nil
}

// Read waits until there is something, or nothing will come, or the deadline has passed.
func (s *stream) Read(p []byte) (int, error) {
	for {
		n, changed, left, err := s.take(p)
		if n > 0 || err != nil {
			return n, err
		}
		await(changed, left)
	}
}

// take reads what there is. If that is nothing it says what to wait for, and for how long.
func (s *stream) take(p []byte) (n int, changed <-chan struct{}, left time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.deadline.IsZero() {
		if left = time.Until(s.deadline); left <= 0 {
			return 0, nil, 0, &net.OpError{Op: "read", Net: network, Addr: address, Err: os.ErrDeadlineExceeded}
		}
	}
	if len(s.data) > 0 {
		n = copy(p, s.data)
		s.data = s.data[n:]
		return n, nil, 0, nil
	}
	return 0, s.changed, left, s.end
}

// await returns when the channel is closed, or after d if that is not 0.
func await(changed <-chan struct{}, d time.Duration) {
	if d == 0 {
		<-changed
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

// finish ends the stream for a reason; the first reason counts.
func (s *stream) finish(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end == nil {
		s.end = why
		s.changeLocked()
	}
}

func (s *stream) setDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	s.changeLocked()
}

func (s *stream) changeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}
