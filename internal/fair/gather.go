package fair

import (
	"slices"
	"strings"
	"time"
)

// gatherFor is how long a question for a place waits for others of the same client and name. So
// their places are next to each other, and are served in one run, and those who were served in one
// run are in one run again. It waits only while the client has a place, or the lock, and others
// want it: the client would hardly have the lock earlier. (Without this, waiters of several clients
// that arrive one by one stand mixed in the queue for ever: each of them asks for its next place
// alone.)
const gatherFor = 2 * time.Millisecond

// gatherLocked keeps a question back, or reports that it is to be sent at once. Only the first
// question of a waiter is kept back. A later one has a reason that should not wait.
func (l *waitlist) gatherLocked(q *inquiry) bool {
	if !q.joins || l.placed == 0 && len(l.gathered) == 0 {
		return false
	}
	l.gathered = append(l.gathered, q)
	switch {
	case l.placed == 0: // it is mostly of who was the last to have the lock, and nobody else will come
		l.togetherLocked()
	case len(l.gathered) > 1:
	case l.gather == nil:
		l.gather = time.AfterFunc(gatherFor, l.together)
	default:
		l.gather.Reset(gatherFor)
	}
	return true
}

// servedLocked is called when the last waiter who had a place leaves. If nobody else seems to want
// the lock, the questions that were kept back are sent at once: then its release hands the lock to
// them. Otherwise they wait for this waiter, who may soon come again, and would stand alone.
func (l *waitlist) servedLocked() {
	if strings.HasPrefix(l.note.Said().Owner, l.lists.client.ID()) {
		l.togetherLocked()
	}
}

// keepsLocked takes a question back that has not been sent yet. It reports whether it was one.
func (l *waitlist) keepsLocked(q *inquiry) bool {
	i := slices.Index(l.gathered, q)
	if i >= 0 {
		l.gathered = slices.Delete(l.gathered, i, i+1)
	}
	return i >= 0
}

// together sends the questions that were kept back. Its goroutine needs no owner: it never waits for
// a server, and does nothing where there is no question.
func (l *waitlist) together() {
	l.lists.mu.Lock()
	defer l.lists.mu.Unlock()
	l.togetherLocked()
}

func (l *waitlist) togetherLocked() {
	if len(l.gathered) == 0 {
		return
	}
	l.gather.Stop()
	for _, q := range l.gathered {
		l.lists.sendLocked(q)
	}
	clear(l.gathered)
	l.gathered = l.gathered[:0]
}
