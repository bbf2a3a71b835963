package fairlock

import (
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// server is the one server that grants a lock, and has the queue of those who wait for it.
type server struct {
	engine.Backend
	base     *engine.Lock
	protocol *protocol
	lists    *waitlists
}

var _ engine.Waiter = (*server)(nil)

// newLock makes a lock. Errors in the arguments are returned by the first operation.
func newLock(c *engine.Client, p *protocol, opts []engine.Option) *engine.Lock {
	b := engine.NewLock(c, p, opts...)
	if b.Err == nil {
		b.Use(&server{b.Backend(), b, p, waitlistsOf(c)})
	}
	return b
}

// Traits is [engine.Backend.Traits].
func (s *server) Traits() engine.Traits {
	t := s.Backend.Traits()
	t.Queues = true
	return t
}

// Explain is [engine.Backend.Explain].
func (s *server) Explain(err error) error { return remote.Explain(err, s.protocol.Name(), true) }

// Crowded is [engine.Waiter].
func (s *server) Crowded() bool { return !s.lists.isFirst(s.base.Key) }

// Join is [engine.Waiter]. The place is asked for when messages arrive; until then only the lock
// is.
func (s *server) Join(a *engine.Acquisition) engine.Place {
	p := s.waiterLocking(a)
	if !p.list.confirmed {
		s.lists.askLocked(p, false)
	}
	s.lists.mu.Unlock()
	return p
}

// Wait is [engine.Waiter]. Nobody waits here for another of this process: the server's queue is the
// only one, so its order is that of all.
//
// The place is asked for when the mailbox is subscribed, since whoever releases the lock passes
// over those that it cannot reach. So the first to come asks for the lock only, and does so itself.
// Who comes while it does, or waits, has joined before.
func (s *server) Wait(a *engine.Acquisition) (*engine.Hold, error) {
	s.lists.first(s.base.Key, 1)
	h, err := a.Ask()
	s.lists.first(s.base.Key, -1)
	if h != nil || err != nil {
		return h, err
	}
	said := a.Said()
	p := s.waiterLocking(a)
	if said.At.After(p.list.said.At) {
		p.list.said = said
	}
	s.lists.mu.Unlock()
	p.Stand()
	return p.Take()
}
