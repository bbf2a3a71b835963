package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
)

const (
	// rivalFor is for how long a client of Redisson counts as one that wants a lock after it was
	// seen to have it. In a crowd each of them has it now and then, also where it gets little.
	rivalFor = 5 * time.Second
	// rivalTurn is how many grants this client has in a turn beside them, at most. In half of its turns,
	// those that begin with an odd token, it has one less.
	rivalTurn = 2
	// maxRivals is how many locks are remembered. What is forgotten costs Redisson's clients a part
	// of their share, and nothing else.
	maxRivals = 1024
)

// rivals are the locks that clients of Redisson have had a moment ago.
//
// They hand nothing on. So where they compete for a lock, this client hands it on once or not at all, and then only
// after the server has said that nobody listens: a turn of [handOffFor] would leave them a tenth of
// the grants, or a thousandth. Among clients of this library turns are shared, and all of them hand on.
//
// (Rejected: turns of one grant. A thread of Redisson's asks again as soon as it has released the
// lock, before anybody can have heard of that, while this client lets others go first. Where both
// sides did the same work under the lock, this one had 0.3 of a fair share. And turns of two: where the lock
// was held for a millisecond, Redisson's had 0.3.)
// (Rejected: to have as few hand-offs as there are others who listen. Most listeners are this
// library's, and it would cost them most of what hand-offs gain.)
type rivals struct {
	some atomic.Bool // there may be any: most clients never meet one
	mu   sync.Mutex
	seen map[queue.Key]time.Time
}

// note remembers a lock if the one who was found to have it is a client of Redisson.
func (s *rivals) note(key queue.Key, owner string) {
	if !remote.IsForeign(owner) {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.seen[key]
	for old, at := range s.seen {
		if known || len(s.seen) < maxRivals {
			break
		}
		if now.Sub(at) > rivalFor {
			delete(s.seen, old)
		}
	}
	if s.seen == nil || !known && len(s.seen) >= maxRivals {
		s.seen = make(map[queue.Key]time.Time)
	}
	s.seen[key] = now
	s.some.Store(true)
}

// seenRecently reports whether a client of Redisson had a lock a moment ago.
func (s *rivals) seenRecently(key queue.Key, now time.Time) bool {
	if !s.some.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.seen[key]
	if ok && now.Sub(at) <= rivalFor {
		return true
	}
	delete(s.seen, key)
	s.some.Store(len(s.seen) > 0)
	return false
}
