package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/remote"
)

// Note is what the callers of one client that want one lock at the same time know of it together: the
// last refusal that any of them got, and the last error of a command since then. So a caller that gives
// up before its own command was answered knows what the others were told. A note ends with the last of
// these callers, because it may be untrue a moment later.
//
// The note does not say whether the server answers at all, see [Backend.Silent].
type Note struct {
	failed atomic.Pointer[error] // of the last command that got no answer; nil after an answer

	mu   sync.Mutex // guards the rest; never held over anything else
	said *Refusal   // the last answer, if that named somebody who has the lock; else nil. It is not changed
	sent time.Time  // when the question was sent whose answer counts, whatever that said
	told int        // how many answers have named somebody
}

// Refusal is a server's answer that somebody has the lock.
type Refusal struct {
	Sent time.Time // when the question was sent
	At   time.Time // when the answer was there; zero: never
	remote.Blocker
}

// isCurrent reports whether the named owner must still have the lock, unless it has released it.
func (r *Refusal) isCurrent() bool { return !r.At.IsZero() && r.Left > 0 && time.Since(r.At) < r.Left }

// Refused notes who has the lock, by the answer to a command that was sent at the given time. The answer
// to the command that was sent last counts. (Rejected: the answer that came last. A poll may be sent before
// the answer to a waiter's command is there, and look at the lock after it.)
func (n *Note) Refused(sent time.Time, by remote.Blocker) {
	n.failed.Store(nil)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told++
	if !sent.Before(n.sent) {
		n.sent, n.said = sent, &Refusal{sent, time.Now(), by}
	}
}

// Free notes, as Refused does, that the earlier holder has the lock no more: a server said so, or granted
// the lock.
func (n *Note) Free(sent time.Time) {
	n.failed.Store(nil)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !sent.Before(n.sent) {
		n.sent, n.said = sent, nil
	}
}

// Failed has the error of the last command that got no answer; nil after an answer.
func (n *Note) Failed() *atomic.Pointer[error] { return &n.failed }

// Said is the last answer.
func (n *Note) Said() Refusal {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.saidLocked()
}

func (n *Note) saidLocked() Refusal {
	if n.said == nil {
		return Refusal{}
	}
	return *n.said
}

// since returns the last refusal, whether it is news to a caller that has seen told refusals, and the
// failure, if the last command got no answer.
func (n *Note) since(told int) (said Refusal, news bool, failure error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if why := n.failed.Load(); why != nil {
		failure = *why
	}
	return n.saidLocked(), n.told > told && n.said != nil, failure
}

// answers is the number of refusals so far.
func (n *Note) answers() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.told
}
