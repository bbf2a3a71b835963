package fair

import (
	"slices"
	"strings"
	"time"
)

// delayFor is how long a request for a place waits for others of the same client and name. So their
// places are next to each other and are served in one run, and the waiters of one run form a run again.
// A request waits only while the client has a place, or the lock, and others want it: the client would
// hardly have the lock earlier. (Without this, waiters of several clients
// that arrive one by one stand mixed in the queue for ever: each of them asks for its next place
// alone.)
const delayFor = 2 * time.Millisecond

// delayLocked delays a request, or reports that it must be sent at once. Only the first request of a
// waiter is delayed. A later one has a reason that should not wait.
func (l *waitlist) delayLocked(q *request) bool {
	if !q.joins || l.inQueue == 0 && len(l.delayed) == 0 {
		return false
	}
	l.delayed = append(l.delayed, q)
	switch {
	case l.inQueue == 0: // it mostly comes from the last holder, and no others will follow
		l.sendDelayedLocked()
	case len(l.delayed) > 1:
	case l.delayTimer == nil:
		l.delayTimer = time.AfterFunc(delayFor, l.sendDelayed)
	default:
		l.delayTimer.Reset(delayFor)
	}
	return true
}

// lastPlaceLeftLocked is called when the last waiter with a place leaves. If no other client seems to
// want the lock, the delayed requests are sent at once: then its release hands the lock to them.
// Otherwise they wait for this waiter, which may soon come again, and would stand alone.
func (l *waitlist) lastPlaceLeftLocked() {
	if strings.HasPrefix(l.note.Said().Owner, l.lists.client.ID()) {
		l.sendDelayedLocked()
	}
}

// cancelDelayedLocked takes back a delayed request. It reports whether the request was delayed.
func (l *waitlist) cancelDelayedLocked(q *request) bool {
	i := slices.Index(l.delayed, q)
	if i >= 0 {
		l.delayed = slices.Delete(l.delayed, i, i+1)
	}
	return i >= 0
}

// sendDelayed sends the delayed requests. Its goroutine needs no owner: it never waits for a server,
// and does nothing if there are no requests.
func (l *waitlist) sendDelayed() {
	l.lists.mu.Lock()
	defer l.lists.mu.Unlock()
	l.sendDelayedLocked()
}

func (l *waitlist) sendDelayedLocked() {
	if len(l.delayed) == 0 {
		return
	}
	l.delayTimer.Stop()
	for _, q := range l.delayed {
		l.lists.sendLocked(q)
	}
	clear(l.delayed)
	l.delayed = l.delayed[:0]
}
