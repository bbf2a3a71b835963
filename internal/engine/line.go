package engine

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/pubsub"
	"github.com/holdfast-go/holdfast/watchdog"
)

// standInLine gets a grant of a kind whose waiters have places at the server. Nobody waits here for another of this process:
// the server's queue is the only one, so its order is that of all.
//
// The place is asked for when the mailbox is subscribed, since whoever releases the lock passes over those that it
// cannot reach. So the first to come asks for the lock only, and does so itself. Who comes while it does, or
// waits, has entered before.
func (g *grant) standInLine() (*Hold, error) {
	c, r := g.base.Client, g.asked
	if r.inLine == nil {
		c.lines.first(g.base.Key, 1)
		h, _, err := g.attempt()
		c.lines.first(g.base.Key, -1)
		switch {
		case h != nil || err != nil:
			return h, err
		case r.once:
			return nil, g.left(nil)
		}
		newPlace(g).join(true)
		r.inLine.stand(r.wait)
	}
	defer c.lines.leave(r.inLine)
	return g.awaitTurn(r.inLine)
}

// awaitTurn ends the wait of a place, and has it asked for again when the lock was handed over in a way that is
// not enough.
func (g *grant) awaitTurn(p *place) (*Hold, error) {
	b, wait, want := g.base, g.asked.wait, &g.asked.want
	for {
		if cause := b.Over(wait); cause != nil {
			g.missed(p)
			return nil, g.left(cause)
		}
		result, got := p.take()
		if result != nil {
			g.heard(p)
			n := g.entry.(*field).result(wait, *result)
			if n.Refused {
				return nil, n.By.Mistake(b.Key.Name)
			}
			return g.conclude(n)
		}
		if err := p.line.refused(); err != nil {
			b.Client.lines.retire(p.line)
			return nil, err
		}
		// A plain lease is not renewed, so it has to be asked for in full at once.
		// And the word of an earlier grant to the same owner may come late.
		fresh := got != nil && (got.micros > p.refusedAt || control.OwnMessage.Off())
		// And so does one that is to stay for longer than the lease.
		if fresh && want.renew && want.atLeast == 0 && time.Now().Before(got.sent.Add(watchdog.Trust(got.claim))) {
			return g.activate(got.sent, got.token, "", min(got.claim, want.Lease))
		}
		p.stand(wait)
	}
}

// missed notes, for a waiter that leaves, what its client's last poll said of the holder, or that it had no answer.
func (g *grant) missed(p *place) {
	p.line.lines.mu.Lock()
	err := p.line.failed
	p.line.lines.mu.Unlock()
	if err != nil {
		g.failed.Store(&err)
	}
	g.heard(p)
}

// heard notes what was said last of the holder to somebody in the line.
func (g *grant) heard(p *place) {
	p.line.lines.mu.Lock()
	said := p.line.said
	p.line.lines.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if said.at.After(g.said.at) {
		g.said = said
	}
}

// line are the waiters of one client for one name. All of it is guarded by the lines' mu but base, server and sub.
type line struct {
	lines  *lines
	base   *Base
	server *oneServer
	sub    *pubsub.Subscription
	places map[string]*place // by owner

	confirmed bool      // the mailbox is subscribed
	due       time.Time // for the next poll
	left      time.Time // when somebody left last
	doubted   time.Time // when the mailbox was found to be at the wrong server
	refreshed time.Time // when the places were put off last
	failed    error     // of the last poll; nil if there was an answer
	said      word      // the last answer that named a holder
	far       bool      // several other clients stand before all of ours
	lost      bool      // a place was gone, so all are looked for

	// A moment of the server and one of ours that was not later: what a message says of the server's time is counted from it.
	sent   time.Time
	micros int64

	called *pubsub.Subscription // where Redisson calls our first waiter
	caller string               // that waiter
}

var _ pubsub.Listener = (*line)(nil)

// Message takes a grant out of the mailbox. It is called with the hub's mutex held.
func (l *line) Message(payload string) {
	fields := strings.Fields(payload)
	if len(fields) != 4 {
		return // not for us
	}
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	// The queue moves without us. But places have to be put off.
	if l.due = time.Now().Add(l.gap()); l.due.After(l.refreshed.Add(refreshGap)) {
		l.due = l.refreshed.Add(refreshGap)
	}
	p := l.places[l.lines.client.id+":"+fields[0]]
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
func (l *line) Look(confirmed bool) {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	l.confirmed = confirmed
	l.due = time.Time{}
	for _, p := range l.places {
		if p.entering || !confirmed { // else the poll tells whom it concerns
			p.signalLocked()
		}
	}
	l.lines.kickLocked()
}

// gap is how long nothing need be asked, if nothing happens.
func (l *line) gap() time.Duration {
	if l.far {
		return refreshGap
	}
	return pollGap
}

// trustLocked is when the server's moment was on our clock, or earlier, and how long the claim stands from then on. Clocks
// run at rates within 1 % of each other; the moment may be before the one that we know, when a message was slower than an
// answer. A server's clock that was set back makes it too early, and the trust is over.
func (l *line) trustLocked(micros, claim string) (got handed, ok bool) {
	at, err := strconv.ParseInt(micros, 10, 64)
	ms, err2 := strconv.ParseInt(claim, 10, 64)
	if err != nil || err2 != nil || l.sent.IsZero() {
		return got, false
	}
	got = handed{micros: at, claim: time.Duration(ms) * time.Millisecond}
	now := suspend.System.Now()
	if control.GrantTime.Off() {
		got.sent = now
		return got, true
	}
	past := time.Duration(at-l.micros) * time.Microsecond
	slept := suspend.System.SleptBy(now) - suspend.System.SleptBy(l.sent) // which our clock has left out, and the server's not
	got.sent = l.sent.Add(past - past.Abs()/100 - slept)
	return got, !got.sent.After(now) // else its clock was set forward
}

// refused is why a waiter cannot wait.
func (l *line) refused() error {
	err := l.sub.Err()
	if err == nil || errors.Is(err, pubsub.ErrClosed) {
		return nil
	}
	return errs.Both(errors.New("cannot listen for the grant; permit this user to subscribe to "+
		l.base.queuer.Mailbox(l.lines.client.id)), err)
}
