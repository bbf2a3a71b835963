package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/waitwatch"
)

// noteRefusal notes what a server said is in the way, when it was asked at a time.
func (a *Acquisition) noteRefusal(sent time.Time, by remote.Blocker) {
	a.base.Client.rivals.note(a.base.Key, by.Owner)
	a.contended = true
	a.grant.note.Refused(sent, by)
	a.base.Client.labelOf(by.Owner) // asked for now, it is known when the wait ends
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

// errAsking is why a caller who asks once is refused before any server has said who has the lock.
var errAsking = errors.New("another call of this client asks for it, and has no answer yet")

// patience is for how long servers must have been silent before this caller is told of an outage.
func (a *Acquisition) patience() remote.Patience {
	return a.base.Client.server.Patience(a.wait, start.Add(a.begun))
}

// silent reports whether the servers that decide have been silent for as long as the caller stayed, see [Backend.Silent].
func (a *Acquisition) silent() bool { return a.base.backend.Silent(a.patience()) }

// Undecided is the error of a vote that masters decide which did not answer in the time that each of them has. They may be
// slow, or the process may have no time for their answers: it is an outage if one of them is silent, see [Backend.Silent].
type Undecided interface {
	error
	Silent(remote.Patience) bool
}

// waitError is the error of a caller that stopped waiting because of cause. A nil cause means that the
// caller asked once and has the answer. The kind of the error is what is known of the lock, whoever
// asked; errors.go in the root has the table.
func (a *Acquisition) waitError(cause error) error {
	g := a.grant
	if errors.Is(cause, errs.ErrClosed) {
		return errs.ErrClosed
	}
	note, known := g.noted()
	said, news, failure := note.since(known)
	silent := a.silent()
	var late error
	if vote := Undecided(nil); errors.As(failure, &vote) && !vote.Silent(a.patience()) {
		failure, late = nil, vote
	}
	if front, id := g.inFront(); front != nil && !news {
		said, news = Refusal{At: time.Now(), Blocker: remote.Blocker{Left: -1, Owner: id}}, true
	}
	switch {
	case news, said.isCurrent() && !silent && failure == nil:
	case cause == nil && failure == nil:
		return &notAcquired{cause: errAsking}
	case !silent && failure == nil:
		said = Refusal{} // it is over
	default:
		if failure == nil {
			failure = a.base.backend.NoAnswer()
		}
		return errs.Outage(errs.WithCause(cause, failure))
	}
	said.Wanted = a.want.Count
	if !a.once && said.Permits.Waiters > 0 { // the caller itself
		said.Permits.Waiters--
	}
	var own *Lock
	if strings.HasPrefix(said.Owner, a.base.Client.ID()+":") && !said.Waits && !said.Ended && !said.Several() {
		own = a.base
	}
	said.Label = a.base.Client.labelOf(said.Owner)
	age := time.Duration(0)
	if !said.At.IsZero() {
		age = time.Since(said.At)
	}
	by, ok := a.ctx.Value(ownerKey{}).(*owner)
	return &notAcquired{said, age, cause, failure, late, own, ok && by.chosen}
}

// inFront is the grant of this client that has the lock and the front place of the local queue, and its owner's
// name; nil if there is none, or it is this one.
func (g *grant) inFront() (front *grant, id string) {
	front, _ = g.base.Client.queue.Front(&g.base.Key).(*grant)
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
func (a *Acquisition) acquireFailed(wait context.Context, o remote.Outcome) error {
	switch cause := context.Cause(wait); {
	case cause == nil || !remote.IsOutage(o.Err):
	case a.grant.isLive(): // the lock is its own already
		return errs.Outage(errs.WithCause(cause, o.Err))
	default:
		return a.waitError(cause)
	}
	return a.base.Uncertain(o)
}

// notAcquired is an ErrNotAcquired with what is known of the holder. The text is made only when
// Error is called, because most callers of TryLock never read it.
type notAcquired struct {
	Refusal
	age     time.Duration // of the word
	cause   error         // why nobody waits any more; nil if it was asked once
	failure error         // of the server since then, or nil
	late    error         // of the last vote, some of whose masters answered too late; or nil
	own     *Lock         // that was asked for, if the owner is of the same client: for a hint; else nil
	chosen  bool          // the caller chose its owner, and needs no hint that it may be another one
}

// Error reads like `not acquired: waited as long as Wait allows; held by <owner>, whose lease has
// 28s left`, with the hint behind it for an owner of the same client.
func (r *notAcquired) Error() string {
	text, sep := errs.ErrNotAcquired.Error(), ": "
	add := func(format string, args ...any) {
		text += sep + fmt.Sprintf(format, args...)
		sep = "; "
	}
	if r.cause != nil {
		add("%v", r.cause)
	}
	if !r.At.IsZero() {
		if who := r.Text(r.age); who != "" {
			add("%s", who)
		}
	}
	if r.failure != nil {
		add("%v since: %v", errs.ErrUnavailable, r.failure)
	}
	if r.late != nil {
		add("%v", r.late)
	}
	if r.own != nil {
		if hint := r.own.hintFor(r.Owner, r.chosen); hint != "" {
			add("%s", hint)
		}
	}
	return text
}

// hintFor is for the caller who waited for an owner of its own client. It is empty if the caller chose its owner, as
// adapters do, so that it is not the other one by mistake.
func (b *Lock) hintFor(owner string, chosen bool) string {
	l := waitwatch.Lock{Key: b.Key, NoReentry: b.traits.NoReentry, NoUpgrade: b.upgradeError() != nil}
	holder := b.Key
	if kind, side := b.Client.dogs.kindOf(b.Key.Name, owner); kind != "" {
		holder.Kind, holder.Side = kind, side
	}
	if chosen && holder == b.Key {
		return ""
	}
	return l.HintFor(holder)
}

// Unwrap is for errors.Is and errors.As.
func (r *notAcquired) Unwrap() []error {
	all := []error{errs.ErrNotAcquired}
	if r.cause != nil {
		all = append(all, r.cause)
	}
	if r.failure != nil {
		all = append(all, errs.ErrUnavailable, r.failure)
	}
	return all
}
