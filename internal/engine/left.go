package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// denied notes what a server said is in the way, when it was asked at a time.
func (g *grant) denied(sent time.Time, by remote.Blocker) {
	g.base.Client.guests.note(g.base.Key, by.Owner)
	g.asked.contended = true
	g.note.Hear(sent, by)
}

// share has the grant know what others of this client know who want the same lock.
func (g *grant) share(n *Note) {
	known := n.answers()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.note, g.known = n, known
}

// noted is the grant's note, for other goroutines, and how many answers there were in it before the lock was wanted.
func (g *grant) noted() (n *Note, known int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.note, g.known
}

// left is the error of a caller that stopped waiting because of cause. A nil cause means that the
// caller asked once and has the answer. The kind of the error is what is known of the lock, whoever
// asked; errors.go in the root has the table.
func (g *grant) left(cause error) error {
	if errors.Is(cause, errs.ErrClosed) {
		return errs.ErrClosed
	}
	note, known := g.noted()
	said, news, failure := note.since(known)
	silent := g.base.backend.Silent(g.base.Client.server.Patience(g.asked.wait, start.Add(g.begun)))
	if front, id := g.inFront(); front != nil && !news {
		said, news = Word{At: time.Now(), Blocker: remote.Blocker{Left: -1, Owner: id}}, true
	}
	switch {
	case news, said.stands() && !silent && failure == nil:
	case cause == nil && failure == nil: // by somebody of this process
		return errs.ErrNotAcquired
	case !silent && failure == nil:
		said = Word{} // it is over
	default:
		if failure == nil {
			failure = errs.WithCause(remote.ErrSilent, g.base.backend.Unreached())
		}
		return errs.Outage(errs.WithCause(cause, failure))
	}
	hint := ""
	if strings.HasPrefix(said.Owner, g.base.Client.ID()+":") && !said.Waits {
		hint = g.base.ownHint()
	}
	said.Label = g.base.Client.labelOf(said.Owner)
	age := time.Duration(0)
	if !said.At.IsZero() {
		age = time.Since(said.At)
	}
	return &notAcquired{said, age, cause, failure, hint}
}

// inFront is the grant of this client that has the lock and the front place of the local queue, and its owner's
// name; nil if there is none, or it is this one.
func (g *grant) inFront() (front *grant, id string) {
	front, _ = g.base.Client.queue.Front(g.base.Key).(*grant)
	if front == nil || front == g {
		return nil, ""
	}
	front.mu.Lock()
	defer front.mu.Unlock()
	if !front.live || front.ended != nil {
		return nil, ""
	}
	return front, front.id
}

// acquireFailed is the error of an acquisition that failed or was left. Nothing stays uncertain for
// the caller, because a grant that the server may have made is undone.
func (g *grant) acquireFailed(wait context.Context, o remote.Outcome) error {
	switch cause := context.Cause(wait); {
	case cause == nil || !remote.IsOutage(o.Err):
	case g.isLive(): // the lock is its own already
		return errs.Outage(errs.WithCause(cause, o.Err))
	default:
		return g.left(cause)
	}
	return g.base.Uncertain(o)
}
