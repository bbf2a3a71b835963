package fair

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/pubsub"
)

// waitlist has the waiters of one client for one name. The waitlists' mu guards all fields except
// lists, server, sub and note.
type waitlist struct {
	lists   *waitlists
	server  *server
	sub     *pubsub.Subscription
	waiters map[string]*waiter // by owner
	note    engine.Note        // what is known of the lock; has its own mutex

	inQueue        int         // how many waiters know that they have a place
	delayed        []*request  // requests that wait for others, see delay.go
	delayTimer     *time.Timer // sends them
	confirmed      bool        // the mailbox is subscribed
	unsubscribedAt time.Time   // since when it is not
	cannotListen   bool        // it has not been for so long that waiters ask for places without it
	due            time.Time   // when the next poll is due
	left           time.Time   // when the last waiter left
	doubted        time.Time   // when the mailbox was found to be at the wrong server
	refreshed      time.Time   // when the places were last kept by a poll
	far            bool        // several other clients are in front of all our waiters
	lost           bool        // a place was gone, so the next poll checks all

	// A moment by the server's clock, and one by ours that was not later. Server times in messages
	// are converted by these two.
	sent   time.Time
	micros int64

	called *pubsub.Subscription // the channel on which Redisson calls our first waiter
	caller string               // the owner of that waiter
}

var _ pubsub.Listener = (*waitlist)(nil)

// Message receives a grant from the mailbox. It is called with the hub's mutex held.
func (l *waitlist) Message(payload string) {
	fields := strings.Fields(payload)
	if len(fields) < 4 {
		return // not for us
	}
	l.lists.mu.Lock()
	defer l.lists.mu.Unlock()
	// The queue moves without a poll of ours. But polls still have to keep our places.
	if l.due = time.Now().Add(l.gap()); l.due.After(l.refreshed.Add(refreshGap)) {
		l.due = l.refreshed.Add(refreshGap)
	}
	p := l.waiters[l.lists.client.ID()+":"+fields[0]]
	if p == nil {
		return // it left, and gives back its grant; or an answer has told it already
	}
	count, next := countOf(fields[4:])
	// Another number of permits than it wants is not a grant. It asks, and exchanges them for what it wants.
	if got, ok := l.trustLocked(fields[2], fields[3]); ok && count == p.acquisition.Want().Count {
		got.token, got.next = fields[1], next
		p.granted = &got
	}
	p.signalLocked()
}

// countOf splits off the number of permits, which is there if several were granted. The owners of a
// run, which may be there too, are not numbers.
func countOf(rest []string) (count int, next []string) {
	if len(rest) > 0 {
		if n, err := strconv.Atoi(rest[0]); err == nil {
			return n, rest[1:]
		}
	}
	return 1, rest
}

// Look is called with the hub's mutex held when messages may have been missed.
func (l *waitlist) Look(confirmed bool) {
	l.lists.mu.Lock()
	defer l.lists.mu.Unlock()
	if l.confirmed && !confirmed {
		l.unsubscribedAt = time.Now()
	}
	l.confirmed, l.cannotListen = confirmed, l.cannotListen && !confirmed
	l.due = time.Time{}
	for _, p := range l.waiters {
		if p.entering || !confirmed { // otherwise the poll wakes the right waiters
			p.signalLocked()
		}
	}
	l.lists.kickLocked()
}

// endsLocked schedules a poll for the end of the holder's lease, which no message announces. left is how many
// milliseconds a server has said are left.
func (l *waitlist) endsLocked(sent time.Time, left int64) {
	if end := sent.Add(remote.Remaining(left) + time.Millisecond); left >= 0 && end.Before(l.due) {
		l.due = end
		l.lists.kickLocked()
	}
}

// gap is the time between polls, if nothing happens. A client that cannot listen gets the lock by its polls.
func (l *waitlist) gap() time.Duration {
	if l.far && l.confirmed {
		return refreshGap
	}
	return pollGap
}

// enterLocked makes waiters ask for places if the mailbox may never be subscribed. A release skips those
// places, but a poll takes the lock for the first of them if it is free.
func (l *waitlist) enterLocked(now time.Time) {
	if l.cannotListen || l.confirmed || now.Sub(l.unsubscribedAt) < listenFor {
		return
	}
	l.cannotListen = true
	for _, p := range l.waiters {
		if p.entering {
			p.wakeLocked()
		}
	}
}

// trustLocked converts the server's time of a grant into a time on our clock that is not later, and
// returns it with the length of the claim. It allows for clock rates within 1 % of each other. The
// grant may be before the moment that we know, if a message was slower than an answer. If the
// server's clock was set back, the result is too early, and the claim is not trusted.
func (l *waitlist) trustLocked(micros, claim string) (got grantMessage, ok bool) {
	at, err := strconv.ParseInt(micros, 10, 64)
	ms, err2 := strconv.ParseInt(claim, 10, 64)
	if err != nil || err2 != nil || l.sent.IsZero() {
		return got, false
	}
	got = grantMessage{micros: at, claim: time.Duration(ms) * time.Millisecond}
	now := suspend.System.Now()
	past := time.Duration(at-l.micros) * time.Microsecond
	// the time that the server's clock counted and ours did not
	slept := suspend.System.SleptBy(now) - suspend.System.SleptBy(l.sent)
	got.sent = l.sent.Add(past - past.Abs()/100 - slept)
	return got, !got.sent.After(now) // otherwise the server's clock was set forward
}

// refused returns the reason why waiters cannot wait, or nil.
func (l *waitlist) refused() error {
	err := l.sub.Err()
	if err == nil || errors.Is(err, pubsub.ErrClosed) {
		return nil
	}
	return errs.Both(errors.New("cannot listen for the grant; permit this user to subscribe to "+
		l.server.protocol.Mailbox(l.lists.client.ID())), err)
}
