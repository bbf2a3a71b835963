package fairlock

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/pubsub"
)

// waitlist is the waiters of one client for one name. All of it is guarded by the waitlists' mu but
// server and sub.
type waitlist struct {
	lists   *waitlists
	server  *server
	sub     *pubsub.Subscription
	waiters map[string]*waiter // by owner

	confirmed bool        // the mailbox is subscribed
	due       time.Time   // for the next poll
	left      time.Time   // when somebody left last
	doubted   time.Time   // when the mailbox was found to be at the wrong server
	refreshed time.Time   // when the places were put off last
	failed    error       // of the last poll; nil if there was an answer
	said      engine.Word // the last answer that named a holder
	far       bool        // several other clients stand before all of ours
	lost      bool        // a place was gone, so all are looked for

	// A moment of the server and one of ours that was not later: what a message says of the
	// server's time is counted from it.
	sent   time.Time
	micros int64

	called *pubsub.Subscription // where Redisson calls our first waiter
	caller string               // that waiter
}

var _ pubsub.Listener = (*waitlist)(nil)

// Message takes a grant out of the mailbox. It is called with the hub's mutex held.
func (l *waitlist) Message(payload string) {
	fields := strings.Fields(payload)
	if len(fields) != 4 {
		return // not for us
	}
	l.lists.mu.Lock()
	defer l.lists.mu.Unlock()
	// The queue moves without us. But places have to be put off.
	if l.due = time.Now().Add(l.gap()); l.due.After(l.refreshed.Add(refreshGap)) {
		l.due = l.refreshed.Add(refreshGap)
	}
	p := l.waiters[l.lists.client.ID()+":"+fields[0]]
	if p == nil {
		return // it left, and gives back what it is handed; or it has asked, and been told by the answer
	}
	if got, ok := l.trustLocked(fields[2], fields[3]); ok {
		got.token = fields[1]
		p.handed = &got
	}
	p.signalLocked()
}

// Look is called with the hub's mutex held when messages may have been missed.
func (l *waitlist) Look(confirmed bool) {
	l.lists.mu.Lock()
	defer l.lists.mu.Unlock()
	l.confirmed = confirmed
	l.due = time.Time{}
	for _, p := range l.waiters {
		if p.entering || !confirmed { // else the poll tells whom it concerns
			p.signalLocked()
		}
	}
	l.lists.kickLocked()
}

// gap is how long nothing need be asked, if nothing happens.
func (l *waitlist) gap() time.Duration {
	if l.far {
		return refreshGap
	}
	return pollGap
}

// trustLocked is when the server's moment was on our clock, or earlier, and how long the claim
// stands from then on. Clocks run at rates within 1 % of each other; the moment may be before the
// one that we know, when a message was slower than an answer. A server's clock that was set back
// makes it too early, and the trust is over.
func (l *waitlist) trustLocked(micros, claim string) (got handed, ok bool) {
	at, err := strconv.ParseInt(micros, 10, 64)
	ms, err2 := strconv.ParseInt(claim, 10, 64)
	if err != nil || err2 != nil || l.sent.IsZero() {
		return got, false
	}
	got = handed{micros: at, claim: time.Duration(ms) * time.Millisecond}
	now := suspend.System.Now()
	past := time.Duration(at-l.micros) * time.Microsecond
	// which our clock has left out, and the server's not
	slept := suspend.System.SleptBy(now) - suspend.System.SleptBy(l.sent)
	got.sent = l.sent.Add(past - past.Abs()/100 - slept)
	return got, !got.sent.After(now) // else its clock was set forward
}

// refused is why a waiter cannot wait.
func (l *waitlist) refused() error {
	err := l.sub.Err()
	if err == nil || errors.Is(err, pubsub.ErrClosed) {
		return nil
	}
	return errs.Both(errors.New("cannot listen for the grant; permit this user to subscribe to "+
		l.server.protocol.Mailbox(l.lists.client.ID())), err)
}
