package fair

import (
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// server is the one server that grants a lock and keeps the queue of its waiters.
type server struct {
	engine.Backend
	base     *engine.Lock
	protocol QueueProtocol
	lists    *waitlists
}

var _ engine.Waiter = (*server)(nil)

// NewLock makes a lock. Errors in the arguments are returned by the first operation.
func NewLock(c *engine.Client, p QueueProtocol, opts ...engine.Option) *engine.Lock {
	b := engine.NewLock(c, p, opts...)
	if b.Err == nil {
		b.Use(&server{b.Backend(), b, p, waitlistsOf(c)})
	}
	return b
}

// Traits is [engine.Backend.Traits].
func (s *server) Traits() engine.Traits {
	t := s.Backend.Traits()
	t.Queues, t.HandsOff = true, true
	return t
}

// Explain is [engine.Backend.Explain].
func (s *server) Explain(err error) error {
	k := keys.For(s.protocol.Name())
	return remote.Explain(err, k.Name, remote.ALock, k.Token, k.Queue, k.Deadlines)
}

// Crowded is [engine.Waiter].
func (s *server) Crowded() bool { return !s.lists.isFirst(&s.base.Key) }

// Join is [engine.Waiter]. It asks for a place only when the mailbox is subscribed, or has not been
// for listenFor. Until then it asks only for the lock.
func (s *server) Join(a *engine.Acquisition) engine.Place {
	p := s.waiterLocking(a)
	if !p.list.confirmed && !p.list.cannotListen {
		s.lists.askLocked(p, false)
	}
	s.lists.mu.Unlock()
	return p
}

// Wait is [engine.Waiter]. Waiters of one process do not queue in memory: the server's queue is the
// only one, so its order is the order of all waiters.
//
// A waiter asks for a place only when the mailbox is subscribed, because a release passes over
// waiters that it cannot reach. So the client's first waiter asks only for the lock, and asks by
// itself. Waiters that come while the first one asks or waits use Join.
func (s *server) Wait(a *engine.Acquisition) (*engine.Hold, error) {
	s.lists.first(&s.base.Key, 1)
	h, err := a.Ask()
	s.lists.first(&s.base.Key, -1)
	if h != nil || err != nil {
		return h, err
	}
	said := a.Note().Said()
	p := s.waiterLocking(a)
	if !said.At.IsZero() {
		p.list.note.Refused(said.Sent, said.Blocker)
	}
	s.lists.mu.Unlock()
	p.Stand()
	return p.Take()
}
