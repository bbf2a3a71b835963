package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/remote"
)

// Note is what the callers of a client who want one lock at the same time know of it together: what
// a server said last of who has it, to anyone of them, and what the last question came to that got
// no answer since. So a caller who leaves before it was asked about itself knows what the others
// were told. A note ends with the last of those who want the lock, because what it says may be
// untrue a moment later.
//
// Whether the server answers at all is not in the note, see [Backend.Answers].
type Note struct {
	failed atomic.Pointer[error] // what the last question came to that got no answer; nil since there was one

	mu   sync.Mutex // guards the rest; never held over anything else
	said Word       // the last answer, if that named somebody who has the lock
	sent time.Time  // when the question was sent whose answer counts, whatever that said
	told int        // how many answers have named somebody
}

// Word is the answer of a server that somebody has the lock.
type Word struct {
	Sent time.Time // when the question was sent
	At   time.Time // when the answer was there; zero: never
	remote.Blocker
}

// stands reports whether the lock must still be held by the one who was named, unless that has given
// it back.
func (w *Word) stands() bool { return !w.At.IsZero() && w.Left > 0 && time.Since(w.At) < w.Left }

// Hear notes the answer to a question that was sent at a time: who has the lock. The answer to one
// that was sent later stands. (Rejected: one that came later. A poll may be sent before the answer to a
// waiter's question is there, and look at the lock after it.)
func (n *Note) Hear(sent time.Time, by remote.Blocker) {
	n.failed.Store(nil)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told++
	if !sent.Before(n.sent) {
		n.sent, n.said = sent, Word{sent, time.Now(), by}
	}
}

// Free notes the answer that the lock is not held by who had it before, as Hear does: a server said so,
// or granted it.
func (n *Note) Free(sent time.Time) {
	n.failed.Store(nil)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !sent.Before(n.sent) {
		n.sent, n.said = sent, Word{}
	}
}

// Failed is what the last question came to that got no answer; nil since there was one.
func (n *Note) Failed() *atomic.Pointer[error] { return &n.failed }

// Said is the last answer.
func (n *Note) Said() Word {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.said
}

// since is the last answer, and whether there was one after the first so many.
func (n *Note) since(told int) (said Word, news bool, failure error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if why := n.failed.Load(); why != nil {
		failure = *why
	}
	return n.said, n.told > told && !n.said.At.IsZero(), failure
}

// answers is how many there were so far.
func (n *Note) answers() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.told
}
