package engine

import (
	"sync"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// keptLocks are the keepers of a client's locks, and what is known of how well it pays to keep them.
type keptLocks struct {
	mu    sync.Mutex // guards the rest; nothing else is taken while it is held
	locks map[queue.Key]*keeping
	vain  map[queue.Key]vain
}

// vain is how often in a row a lock was kept in vain: it was called back, or its time was over,
// before anybody of this client wanted it again.
type vain struct {
	times uint8
	rest  int // how many more unlocks are to release it
}

const (
	// mostVain bounds how long a name is not kept: for 2 to the power of that many unlocks. So a lock
	// that two processes take in turns costs them next to nothing more than without Keep.
	mostVain = 8
	// vainNames bounds for how many names that is known.
	vainNames = 4096
)

// keepings are those of a client.
func keepings(c *Client) *keptLocks {
	return Attached(c, func(*Client) *keptLocks {
		return &keptLocks{locks: make(map[queue.Key]*keeping), vain: make(map[queue.Key]vain)}
	})
}

// of is the keeper of a lock, nil if there is none.
func (s *keptLocks) of(key queue.Key) *keeping {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locks[key]
}

func (s *keptLocks) add(key queue.Key, k *keeping) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks[key] = k
}

func (s *keptLocks) remove(key queue.Key, k *keeping) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locks[key] == k {
		delete(s.locks, key)
	}
}

// pays reports whether a lock that is unlocked now should be kept. It counts the unlocks.
func (s *keptLocks) pays(key queue.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vain[key]
	if v.rest == 0 {
		return true
	}
	v.rest--
	s.vain[key] = v
	return false
}

// paid notes that a lock was wanted again while it was kept.
func (s *keptLocks) paid(key queue.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.vain, key)
}

// vainly notes that it was not. Beyond vainNames some name is forgotten.
func (s *keptLocks) vainly(key queue.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vain[key]
	v.times = min(v.times+1, mostVain)
	v.rest = 1 << v.times
	s.vain[key] = v
	for other := range s.vain {
		if len(s.vain) <= vainNames {
			return
		}
		delete(s.vain, other)
	}
}
