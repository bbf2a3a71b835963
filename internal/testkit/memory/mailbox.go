package memory

import (
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/pubsub"
)

// mailbox is where a client is called that has a lock.
type mailbox struct {
	server   *Server
	name     string
	client   string
	listener pubsub.Listener
}

// open makes one, in which calls arrive at once.
func (s *Server) open(name, client string, l pubsub.Listener) *mailbox {
	b := &mailbox{s, name, client, l}
	s.mu.Lock()
	if s.boxes == nil {
		s.boxes = make(map[*mailbox]struct{})
	}
	s.boxes[b] = struct{}{}
	s.mu.Unlock()
	l.Look(true)
	return b
}

// Close ends it. As with a real subscription, what is on its way may arrive all the same.
func (b *mailbox) Close() {
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	delete(b.server.boxes, b)
}

// listeners are those of a name, of one client or of all.
func (s *Server) listeners(name, client string) (all []pubsub.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for b := range s.boxes {
		if b.name == name && (client == "" || b.client == client) {
			all = append(all, b.listener)
		}
	}
	return all
}

// call calls the client of an owner, if it wants to be called and is not the one who asks.
func (s *Server) call(name, owner, by string) {
	client, _ := remote.Called(owner)
	if client == "" || client == by {
		return
	}
	for _, l := range s.listeners(name, client) {
		l.Message("1")
	}
}

// Called is how many hear calls for a lock.
func (s *Server) Called(name string) int { return len(s.listeners(name, "")) }
