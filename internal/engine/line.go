package engine

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/pubsub"
	"github.com/holdfast-go/holdfast/watchdog"

	"github.com/holdfast-go/holdfast/internal/errs"
)

// standInLine gets a grant of a kind whose waiters have places at the server. Nobody waits here for another of this process:
// the server's queue is the only one, so its order is that of all.
//
// The place is asked for when the mailbox is subscribed, since whoever releases the lock passes over those that it cannot
// reach. So the first to come asks for the lock only; where somebody of this client waits already, both are one script.
func (g *grant) standInLine() (*Hold, error) {
	c, r := g.base.Client, g.asked
	if r.once || !c.lines.listens(g.base.Key) {
		h, _, err := g.attempt(false)
		switch {
		case h != nil || err != nil:
			return h, err
		case r.once:
			return nil, g.left(nil)
		}
	}
	p, err := c.lines.enter(g)
	if err != nil {
		return nil, err
	}
	defer c.lines.leave(p)
	g.entry.setPlaced(true) // until it is live: whoever leaves gives its place back
	return g.awaitTurn(p)
}

// awaitTurn asks for a place, and again when there is reason to think that it is gone, or that the lock was handed over
// without a word that reached us.
func (g *grant) awaitTurn(p *place) (*Hold, error) {
	b, wait, want := g.base, g.asked.wait, &g.asked.want
	var own *pubsub.Subscription // where Redisson calls this waiter
	defer func() {
		if own != nil {
			own.Close()
		}
	}()
	for {
		h, _, err := g.attempt(true)
		if h != nil || err != nil {
			return h, err
		}
		// A poll would find that it is to be called, a second later. (Not for all: it is a channel for each waiter.)
		if g.foreign && own == nil {
			own = b.Client.hub.Listen(b.queuer.Mailbox(g.id), (*calls)(p.line))
		}
		select {
		case <-p.wake:
		case <-wait.Done():
		case <-b.Client.ctx.Done():
		}
		if cause := b.Over(wait); cause != nil {
			g.missed(p)
			return nil, g.left(cause)
		}
		if err := p.line.refused(); err != nil {
			b.Client.lines.retire(p.line)
			return nil, err
		}
		// A plain lease is not renewed, so it has to be asked for in full at once.
		// And the word of an earlier grant to the same owner may come late.
		got := p.take()
		fresh := got.micros > g.refusedAt || got.micros > 0 && control.OwnMessage.Off()
		// And so does one that is to stay for longer than the lease.
		if fresh && want.renew && want.atLeast == 0 && time.Now().Before(got.sent.Add(watchdog.Trust(got.claim))) {
			return g.activate(got.sent, got.token, "", min(got.claim, want.Lease))
		}
	}
}

// missed notes, for a waiter that leaves, what its client's last poll said of the holder, or that it had no answer.
func (g *grant) missed(p *place) {
	p.line.lines.mu.Lock()
	err, said := p.line.failed, p.line.said
	p.line.lines.mu.Unlock()
	if err != nil {
		g.failed.Store(&err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if said.at.After(g.said.at) {
		g.said = said
	}
}

// place is what a waiter has in a line.
type place struct {
	line  *line
	owner string
	wake  chan struct{} // 1-buffered: look at what was handed over, or ask the server
	since time.Time     // before the place was asked for

	// Guarded by the lines' mu.
	handed   handed
	entering bool // waits for the mailbox to be confirmed
}

// handed is a grant of which a message told.
type handed struct {
	token  string
	micros int64     // when, by the server's clock
	sent   time.Time // not later than that, by this process's clock
	claim  time.Duration
}

func (p *place) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *place) take() handed {
	p.line.lines.mu.Lock()
	defer p.line.lines.mu.Unlock()
	got := p.handed
	p.handed = handed{}
	return got
}

// line are the waiters of one client for one name. All of it is guarded by the lines' mu but base and sub.
type line struct {
	lines  *lines
	base   *Base
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
		p.handed = got
		p.handed.token = fields[1]
	}
	p.signal()
}

// Look is called with the hub's mutex held when messages may have been missed.
func (l *line) Look(confirmed bool) {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	l.confirmed = confirmed
	l.due = time.Time{}
	for _, p := range l.places {
		if p.entering || !confirmed { // else the poll tells whom it concerns
			p.signal()
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
