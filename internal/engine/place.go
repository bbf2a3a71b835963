package engine

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/watchdog"
)

// Waiter is a [Backend] whose waiters have places at the server. They are not queued in the
// process. The rest of it is that of [NewLock], and the replies of its scripts say more, see
// [kind.Queuer].
type Waiter interface {
	// Crowded reports whether somebody of this client waits for the lock, or asks for it. Then who
	// comes joins at once, and does not ask first.
	Crowded() bool
	// Join gives an acquisition a place that has not asked for anything yet.
	Join(a *Acquisition) Place
	// Wait gets a hold for an acquisition that has not joined. It asks first, and joins if that is
	// refused.
	Wait(a *Acquisition) (*Hold, error)
}

// Place is what an acquisition waits in that has joined.
type Place interface {
	// Stand waits until there is something to do. It is called near the top of the stack, which
	// each waiter keeps for as long as it waits: what is called from here has to be shallow.
	Stand()
	// Take gets the hold, for which it may wait on, and leaves the place.
	Take() (*Hold, error)
}

// What a [Waiter] sees of an acquisition, and does with it.

// Context bounds the wait.
func (a *Acquisition) Context() context.Context { return a.wait }

// Over is why nobody should wait any more, see [Lock.Over].
func (a *Acquisition) Over() error { return a.base.Over(a.wait) }

// Owner is who wants the lock, as the server knows it.
func (a *Acquisition) Owner() string { return a.grant.id }

// Want is what is wanted.
func (a *Acquisition) Want() *Settings { return a.want }

// Place is for how long a place at the server is of use: what is granted later would not be heard of in time.
func (a *Acquisition) Place() time.Duration { return a.base.PlaceFor(a.wait) }

// Entry is what the owner may have at the server. It has to be told of places, and of questions
// whose end nobody waits for: what they come to is given back.
func (a *Acquisition) Entry() Entry { return a.grant.entry }

// Note is what is known of the lock.
func (a *Acquisition) Note() *Note { return a.grant.note }

// Share has the acquisition know what others of this client know who want the same lock.
func (a *Acquisition) Share(n *Note) { a.grant.share(n) }

// Ask asks the server once, and for no place. Without a hold and an error the lock is another's.
func (a *Acquisition) Ask() (*Hold, error) {
	h, _, err := a.attempt()
	return h, err
}

// WaitError is the error of one who stops waiting because of cause. It says what is known of who has the
// lock, or why that is not known.
func (a *Acquisition) WaitError(cause error) error { return a.waitError(cause) }

// Ended takes from the end of a question of the owner's, whoever sent it, what others make use of:
// the server's clock, how far it is, and whether the question may still arrive.
func (a *Acquisition) Ended(o remote.Outcome) { a.grant.entry.(*serverEntry).note(o) }

// Answer gets the hold that such a question was granted, or says why there is none. Without a hold
// and an error it has to be asked again.
func (a *Acquisition) Answer(o remote.Outcome) (*Hold, error) {
	n := a.grant.entry.(*serverEntry).result(a.wait, o)
	if n.Refused {
		return nil, n.By.Mistake(a.base.Key.Name)
	}
	h, err := a.conclude(n)
	if a.tooSlow(err) {
		return nil, nil
	}
	return h, err
}

// Run is those of this client who are to have a lock after the one who got it from the server.
type Run interface {
	// Len is for how many of them a token was reserved.
	Len() int
	// Next calls give with those who are next, in their order, until one takes the lock, and reports
	// whether one did. Those who have left are passed over. give takes no mutex of a Waiter.
	Next(give func(*Acquisition) bool) bool
}

// Accept gets the hold of a lock that the server has handed to the owner unasked, and that stands
// for claim from sent on. There is none, and no error, if that is not enough: then it has to be
// asked for. Those of the run, if it is not nil, have the lock afterwards.
func (a *Acquisition) Accept(sent time.Time, token string, claim time.Duration, run Run) (*Hold, error) {
	// A plain lease is not renewed, so it has to be asked for in full at once. And so does one that
	// is to stay for longer than the lease.
	want := a.Want()
	if !want.renew || want.atLeast != 0 || !time.Now().Before(sent.Add(watchdog.Trust(claim))) {
		return nil, nil
	}
	g, last := a.grant, ""
	if first, err := strconv.ParseUint(token, 10, 64); err == nil && run != nil {
		last = strconv.FormatUint(first+uint64(run.Len()), 10) //nolint:gosec // G115: a few
	}
	h, err := g.activate(sent, token, last, min(claim, want.Lease))
	if errors.Is(err, errSlow) {
		return nil, nil
	}
	a.how = event.HandedOn
	if err == nil && run != nil {
		t := g.serverLease
		next := func(give func(any) bool) bool {
			return run.Next(func(to *Acquisition) bool { return give(to.grant) })
		}
		t.run = &leaseRun{next, g.base.Dog.Deadline(&t.watch), claim}
	}
	return h, err
}

// TakeOver returns the hold of an acquisition to which a run handed the lock. If the wait of the
// acquisition has ended, the lock is given back.
func (a *Acquisition) TakeOver() (*Hold, error) {
	a.how = event.HandedOn
	return a.takenOver(nil)
}
