package inspect

import (
	"hash/maphash"
	"sync"

	"github.com/holdfast-go/holdfast/internal/keys"
)

// seen remembers which names were told lately, in a bounded space: two sets of hashes, of which the
// older one is forgotten when the newer one is full. So at least the last size names are known.
type seen struct {
	seed maphash.Seed
	size int

	mu       sync.Mutex // guards the rest: the masters of a cluster are gone through at the same time
	now, old map[uint64]struct{}
}

func newSeen(size int) *seen {
	return &seen{seed: maphash.MakeSeed(), size: size, now: make(map[uint64]struct{})}
}

// first reports whether a name was not found before in this way, as far as that is known. (Not in
// any way: of all keys of a lock, one is that by which it is told.)
func (s *seen) first(name string, by keys.Trace) bool {
	sum := maphash.String(s.seed, name) + uint64(by) //nolint:gosec // a small number
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, is := s.now[sum]; is {
		return false
	}
	_, is := s.old[sum]
	if len(s.now) >= s.size {
		s.old, s.now = s.now, make(map[uint64]struct{})
	}
	s.now[sum] = struct{}{}
	return !is
}
