// Package memory is a server for locks that is a map in the process. It is the second thing that internal/engine runs on,
// beside Redis, and so shows what the engine knows of its servers: the suite of all kinds runs on it too.
//
// Not promised: a wire format, replicas. Nothing is sent, so nothing is lost or late, but for the
// calls to those who keep a lock, and for releases that take a while; see [Server].
package memory

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/pubsub"
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
	// ReleaseTakes is for how long a release is under way before it is done.
	ReleaseTakes time.Duration

	asked atomic.Int64 // operations so far

	mu    sync.Mutex      // guards the rest
	locks map[string]held // by name
	token uint64          // that was granted last
	ears  map[*ear]struct{}
}

// held is a lock that somebody holds.
type held struct {
	owner string
	count int
	token uint64
	ends  time.Time
}

// lookLocked is who holds a lock, if somebody does and the lease has not ended.
func (s *Server) lookLocked(name string) (h held, taken bool) {
	h, taken = s.locks[name]
	return h, taken && time.Now().Before(h.ends)
}

func (s *Server) putLocked(name string, h held) {
	if s.locks == nil {
		s.locks = make(map[string]held)
	}
	s.locks[name] = h
}

// acquire grants a lock with so many tokens, again to the owner that has it, or says who else holds it.
func (s *Server) acquire(name, owner string, tokens int, lease time.Duration) (h held, last uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked.Add(1)
	if h, taken := s.lookLocked(name); taken && h.owner != owner && s.Flaw != GrantsTwice {
		if s.Flaw == Nameless {
			h.owner = ""
		}
		return h, 0, false
	}
	first, last := s.reserveLocked(tokens)
	h = held{owner: owner, count: 1, token: first, ends: time.Now().Add(lease)}
	s.putLocked(name, h)
	return h, last, true
}

// reserveLocked makes tokens.
func (s *Server) reserveLocked(n int) (first, last uint64) {
	if s.token == 0 || s.Flaw != OldTokens {
		first, s.token = s.token+1, s.token+uint64(max(n, 1)) //nolint:gosec // few
		return first, s.token
	}
	return s.token, s.token
}

// pass keeps a lock for its client's next holder, with new tokens, or releases it if somebody listens.
func (s *Server) pass(name, owner string, tokens int, lease time.Duration) (first, last uint64, ears int, held bool) {
	if ears = s.Waiters(name); ears > 0 {
		return 0, 0, ears, s.release(name, owner, 0)
	}
	if !s.set(name, owner, 0, lease) {
		return 0, 0, 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first, last = s.reserveLocked(tokens)
	return first, last, 0, true
}

// set lengthens the lease of a holder, and sets its count if that is not 0.
func (s *Server) set(name, owner string, count int, lease time.Duration) (holds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked.Add(1)
	h, taken := s.lookLocked(name)
	if !taken || h.owner != owner && s.Flaw != AnyOwner {
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
	if s.ReleaseTakes > 0 {
		<-time.After(s.ReleaseTakes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked.Add(1)
	h, taken := s.lookLocked(name)
	if !taken || h.owner != owner {
		return false
	}
	if rest > 0 {
		// As the scripts have it: who has left a lock is not its owner any more.
		h.owner, h.count = strings.Replace(owner, ":h", ":h0", 1), 1
		if ends := time.Now().Add(rest); ends.Before(h.ends) {
			h.ends = ends
		}
		s.putLocked(name, h)
	} else {
		delete(s.locks, name)
	}
	for e := range s.ears {
		if e.name == name && e.client == "" {
			e.listener.Message("0")
		}
	}
	return true
}

// state is who holds a lock, if somebody does.
func (s *Server) state(name string) (h held, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked.Add(1)
	if found, taken := s.lookLocked(name); taken {
		h = found
	}
	return h, s.token
}

// Give gives a lock to an owner behind its holder's back.
func (s *Server) Give(name, owner string, lease time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token++
	s.putLocked(name, held{owner: owner, count: 1, token: s.token, ends: time.Now().Add(lease)})
}

// Take takes a lock from its holder, who is not told.
func (s *Server) Take(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.locks, name)
}

// Owner is who holds a lock; empty: nobody.
func (s *Server) Owner(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, taken := s.lookLocked(name)
	if !taken {
		return ""
	}
	return h.owner
}

// Asked is how many operations there were.
func (s *Server) Asked() int64 { return s.asked.Load() }

// ear is where somebody hears of a lock: one who waits for it, of releases; a client that has it, of calls.
type ear struct {
	server   *Server
	name     string
	client   string // that is called; empty: one who waits
	listener pubsub.Listener
}

// open makes an ear, which hears at once.
func (s *Server) open(name, client string, l pubsub.Listener) *ear {
	e := &ear{s, name, client, l}
	s.mu.Lock()
	if s.ears == nil {
		s.ears = make(map[*ear]struct{})
	}
	s.ears[e] = struct{}{}
	s.mu.Unlock()
	l.Look(true)
	return e
}

// Close ends it. As with a real subscription, what is on its way may arrive all the same.
func (e *ear) Close() {
	e.server.mu.Lock()
	defer e.server.mu.Unlock()
	delete(e.server.ears, e)
}

// listeners are those who hear of a lock, of some clients.
func (s *Server) listeners(name string, of func(client string) bool) (some []pubsub.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.ears {
		if e.name == name && of(e.client) {
			some = append(some, e.listener)
		}
	}
	return some
}

func anyClient(client string) bool { return client != "" }

// Waiters is how many wait for a lock.
func (s *Server) Waiters(name string) int {
	return len(s.listeners(name, func(client string) bool { return client == "" }))
}

// Called is how many hear calls for a lock.
func (s *Server) Called(name string) int { return len(s.listeners(name, anyClient)) }

// Interrupt breaks the connections on which calls for a lock arrive, or mends them.
func (s *Server) Interrupt(name string, broken bool) {
	for _, l := range s.listeners(name, anyClient) {
		l.Look(!broken)
	}
}

// call calls the client of an owner, if it wants to be called and is not the one who asks.
func (s *Server) call(name, owner, by string) {
	called, _ := remote.Called(owner)
	if called == "" || called == by {
		return
	}
	for _, l := range s.listeners(name, func(client string) bool { return client == called }) {
		l.Message("1")
	}
}

// waiter is woken by releases, and first when it begins to listen: what happened before is not known.
type waiter struct {
	*ear
	wake chan struct{} // 1-buffered
}

func (s *Server) listen(name string) *waiter {
	w := &waiter{wake: make(chan struct{}, 1)}
	w.ear = s.open(name, "", w)
	s.asked.Add(1)
	return w
}

// Message is part of pubsub.Listener.
func (w *waiter) Message(string) {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Look is part of pubsub.Listener.
func (w *waiter) Look(bool) { w.Message("") }

// Wake is part of engine.Listening.
func (w *waiter) Wake() <-chan struct{} { return w.wake }

// Err is part of engine.Listening: everybody may listen.
func (w *waiter) Err() error { return nil }

// Confirmed is part of engine.Listening.
func (w *waiter) Confirmed() bool { return true }
