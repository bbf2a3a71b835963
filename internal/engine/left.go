package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// denied notes what a server said is in the way.
func (g *grant) denied(by remote.Blocker) {
	g.base.Client.guests.note(g.base.Key, by.Owner)
	g.failed.Store(nil)
	g.asked.contended = true
	g.mu.Lock()
	defer g.mu.Unlock()
	g.said = Word{time.Now(), by}
}

// hear takes over what the grant ahead in the local queue knows, because that grant asked for both.
// If the grant ahead had the lock, or was refused, then this grant was refused. leaving says that
// this grant will not ask the server itself. Then the failures of the grant ahead count too.
func (g *grant) hear(ahead any, leaving bool) {
	front, _ := ahead.(*grant)
	if front == nil || front == g {
		return
	}
	front.mu.Lock()
	said := front.said
	switch {
	case front.live && g.base.traits.Shared && !leaving:
		said = Word{} // it keeps nobody out: this one will hear for itself
	case front.live:
		said = Word{time.Now(), remote.Blocker{Left: -1, Owner: front.id}}
	}
	live := front.live
	front.mu.Unlock()
	if leaving && !live {
		g.failed.Store(front.failed.Load())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.said = said
}

// left is the error of a caller that stopped waiting because of cause. A nil cause means that the
// caller asked once and has the answer.
func (g *grant) left(cause error) error {
	if errors.Is(cause, errs.ErrClosed) {
		return errs.ErrClosed
	}
	g.mu.Lock()
	said := g.said
	g.mu.Unlock()
	var failure error
	if failed := g.failed.Load(); failed != nil {
		failure = *failed
	}
	switch {
	case !said.At.IsZero():
		hint := ""
		if strings.HasPrefix(said.Owner, g.base.Client.ID()+":") {
			hint = g.base.ownHint()
		}
		said.Label = g.base.Client.labelOf(said.Owner)
		return &notAcquired{said, time.Since(said.At), cause, failure, hint}
	case cause == nil:
		return errs.ErrNotAcquired // by somebody of this process
	case failure == nil && g.counted:
		failure = remote.ErrSilent // on the way
	}
	return outage(WithCause(cause, failure))
}

// acquireFailed is the error of an acquisition that failed or was left. Nothing stays uncertain for
// the caller, because a grant that the server may have made is undone.
func (g *grant) acquireFailed(wait context.Context, o remote.Outcome) error {
	if cause := context.Cause(wait); cause != nil && remote.IsOutage(o.Err) {
		return g.left(cause)
	}
	return g.base.Uncertain(o)
}
