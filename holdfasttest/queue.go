package holdfasttest

import (
	"context"
	"sync"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Queue builds a queue for a name, as it stands in Redis, which must be taken. It runs each of the
// functions in a goroutine of its own, and starts the next one when the one before it waits for the
// lock. It returns when all of them wait. Each function locks the name, in any way, and may do
// other things before and after that. wait returns when all functions have returned; the end of the
// test waits for them, too.
//
// If the kind grants in an order, that is the order of the functions: between waiters of one
// client, and for a fairlock, a semaphore and an election between all. Waiters of different clients
// for one of the other kinds get the lock in any order, as on a real server.
//
// A function that returns before it waits fails the test, and the later ones do not run.
func (s *Server) Queue(name string, waiters ...func()) (wait func()) {
	s.tb.Helper()
	var group sync.WaitGroup
	for i, f := range waiters {
		before, err := s.waiting(name)
		if err != nil {
			s.tb.Errorf("holdfasttest: looking at %q: %v", name, err)
			break
		}
		returned := make(chan struct{})
		group.Add(1)
		s.queues.Go(func() {
			defer group.Done()
			defer close(returned)
			f()
		})
		if !s.queued(name, before, returned) {
			s.tb.Errorf("holdfasttest: the function %d of a queue for %q returned, or locked it, before it waited; occupy the name first",
				i, name)
			break
		}
	}
	return group.Wait
}

// line is who waits for a name: as the clients know, and as the server does.
type line struct{ calls, local, places int }

func (s *Server) waiting(name string) (l line, err error) {
	l.calls = s.watch.waiters(name)
	for _, c := range s.all() {
		l.local += (*engine.Client)(c).InLine(name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	seen, err := s.look.Lock(ctx, name)
	l.places = max(seen.Waiters, 0)
	return l, err
}

// isLonger reports whether there is one more waiter, which has a place that decides its turn.
func (l line) isLonger(before line) bool {
	return l.calls > before.calls && (l.local > before.local || l.places > before.places)
}

// patience is how long a queue may take to grow by one, on however slow a machine.
const patience = 30 * time.Second

// queued waits until there is one more in the line. In a bubble it has no need to wait.
func (s *Server) queued(name string, before line, returned <-chan struct{}) bool {
	s.tb.Helper()
	step := time.Millisecond
	if s.bubble {
		synctest.Wait()
		step = 100 * step
	}
	tick := time.NewTicker(step)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		select {
		case <-returned:
			return false
		default:
		}
		if now, err := s.waiting(name); err == nil && now.isLonger(before) {
			return true
		}
	}
	return false
}
