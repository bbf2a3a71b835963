// Package memory is a server for locks that is a map in the process. It is the second thing that
// internal/engine runs on, beside Redis, and so shows what the engine knows of its servers: the
// suite of all kinds runs on it too.
//
// Not promised: a wire format, replicas, faults. Nothing is sent, so nothing is lost or late.
package memory

import (
	"strings"
	"sync"
	"time"
)

// Flaw is something that a server does wrong, to show that the suite sees it.
type Flaw string

// The flaws that there are.
const (
	GrantsTwice Flaw = "a held lock is granted"
	OldTokens   Flaw = "tokens do not grow"
	NoCount     Flaw = "the hold count stays"
	NoExtension Flaw = "leases are not lengthened"
	AnyOwner    Flaw = "nobody asks whose the lock is"
	Nameless    Flaw = "a refusal does not say who holds the lock"
)

// Server keeps locks. The zero value is ready.
type Server struct {
	Flaw Flaw // empty: none

	mu    sync.Mutex // guards the rest
	locks map[string]held
	token uint64            // that was granted last
	ears  map[*ear]struct{} // of those who wait
	asked int64             // operations so far
}

// held is a lock that somebody holds.
type held struct {
	owner string
	count int
	token uint64
	ends  time.Time
}

// ear is where one waiter hears that a name may be free.
type ear struct {
	server *Server
	name   string
	wake   chan struct{} // 1-buffered
}

// lookLocked is what there is of a lock, without one whose lease has ended.
func (s *Server) lookLocked(name string) (held, bool) {
	h, there := s.locks[name]
	if there && !time.Now().Before(h.ends) {
		delete(s.locks, name)
		return held{}, false
	}
	return h, there
}

func (s *Server) putLocked(name string, h held) {
	if s.locks == nil {
		s.locks = make(map[string]held)
	}
	s.locks[name] = h
}

// acquire grants a free lock, or says who has it. What an owner has it is granted again.
func (s *Server) acquire(name, owner string, lease time.Duration) (h held, granted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	h, there := s.lookLocked(name)
	if there && h.owner != owner && s.Flaw != GrantsTwice {
		if s.Flaw == Nameless {
			h.owner = ""
		}
		return h, false
	}
	if s.token == 0 || s.Flaw != OldTokens {
		s.token++
	}
	h = held{owner: owner, count: 1, token: s.token, ends: time.Now().Add(lease)}
	s.putLocked(name, h)
	return h, true
}

// set lengthens the lease of a holder, and sets its count if that is not 0.
func (s *Server) set(name, owner string, count int, lease time.Duration) (holds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	h, there := s.lookLocked(name)
	if !there || h.owner != owner && s.Flaw != AnyOwner {
		return false
	}
	if count > 0 && s.Flaw != NoCount {
		h.count = count
	}
	if ends := time.Now().Add(lease); ends.After(h.ends) && s.Flaw != NoExtension {
		h.ends = ends
	}
	s.putLocked(name, h)
	return true
}

// release frees the lock of an owner, or has it end by itself when the rest of its time is over.
func (s *Server) release(name, owner string, rest time.Duration) (held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	h, there := s.lookLocked(name)
	if !there || h.owner != owner {
		return false
	}
	delete(s.locks, name)
	if rest > 0 {
		// As the scripts have it: who has left a lock is not its owner any more.
		h.owner, h.count = strings.Replace(owner, ":h", ":h0", 1), 1
		if ends := time.Now().Add(rest); ends.Before(h.ends) {
			h.ends = ends
		}
		s.putLocked(name, h)
	}
	for e := range s.ears {
		if e.name == name {
			e.hear()
		}
	}
	return true
}

// state is who holds a lock, if somebody does.
func (s *Server) state(name string) (h held, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	h, _ = s.lookLocked(name)
	return h, s.token
}

// Give gives a lock to an owner behind its holder's back.
func (s *Server) Give(name, owner string, lease time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token++
	s.putLocked(name, held{owner: owner, count: 1, token: s.token, ends: time.Now().Add(lease)})
}

// Asked is how many operations there were.
func (s *Server) Asked() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Waiters is how many wait for a lock.
func (s *Server) Waiters(name string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.ears {
		if e.name == name {
			n++
		}
	}
	return n
}

// listen makes one that hears of releases. It begins with a wake-up: what happened before is not
// known.
func (s *Server) listen(name string) *ear {
	e := &ear{server: s, name: name, wake: make(chan struct{}, 1)}
	e.hear()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.ears == nil {
		s.ears = make(map[*ear]struct{})
	}
	s.ears[e] = struct{}{}
	return e
}

func (e *ear) hear() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Wake is part of engine.Listening.
func (e *ear) Wake() <-chan struct{} { return e.wake }

// Err is part of engine.Listening: everybody may listen.
func (e *ear) Err() error { return nil }

// Close is part of engine.Listening.
func (e *ear) Close() {
	e.server.mu.Lock()
	defer e.server.mu.Unlock()
	delete(e.server.ears, e)
}
