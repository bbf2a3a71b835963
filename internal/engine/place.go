package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/pubsub"
)

// place is what a waiter has in a line.
//
// Ten thousand may have one, so a waiter costs little: its goroutine asks nothing itself, which would take a deep
// stack that it keeps, nor does it start another. It leaves its questions to the [asker], and is parked near the
// top of its stack until they have come to something.
type place struct {
	line  *line
	grant *grant
	wake  chan struct{} // 1-buffered: something has changed
	since time.Time     // before the place was asked for

	// Guarded by the lines' mu.
	asking    *inquiry        // that has no end yet
	result    *remote.Outcome // of the last question, for the waiter
	handed    *handed         // nil, or a grant of which a message told
	refusedAt int64           // the server's time, in microseconds, when it last said that the place has not been granted yet
	look      bool            // there is reason to ask
	entering  bool            // waits for the mailbox to be confirmed
	foreign   bool            // one of Redisson's may be the one that calls this owner next

	own *pubsub.Subscription // where that one calls; of the waiter
}

// handed is a grant of which a message told.
type handed struct {
	token  string
	micros int64     // when, by the server's clock
	sent   time.Time // not later than that, by this process's clock
	claim  time.Duration
}

// newPlace makes a place for a waiter that is to join a line.
func newPlace(g *grant) *place {
	p := &place{grant: g, wake: make(chan struct{}, 1), since: time.Now(), entering: true}
	g.asked.inLine = p
	g.entry.setPlaced(true) // until it is live: whoever leaves gives its place back
	return p
}

// join puts a place into the line of its name. A place is asked for when messages arrive; until then only for the
// lock, unless that has been asked for.
func (p *place) join(asked bool) {
	b := p.grant.base
	ls := &b.Client.lines
	ls.mu.Lock()
	if p.line = ls.lines[b.Key]; p.line == nil {
		ls.mu.Unlock()
		p.line = ls.open(b)
	}
	p.line.places[p.grant.id] = p
	switch {
	case !asked && !p.line.confirmed:
		ls.askLocked(p, false)
	case asked && p.grant.said.at.After(p.line.said.at):
		p.line.said = p.grant.said
	}
	ls.mu.Unlock()
}

// stand waits until there is something for the waiter to do: it has the answer that it waits for, or was handed
// the lock, or nobody should wait any more. It is called near the top of the stack: what is called from here has
// to be shallow.
func (p *place) stand(wait context.Context) {
	for !p.isOver(wait) {
		select {
		case <-p.wake:
		case <-wait.Done(): // (That of the client wakes too. To watch it costs each waiter a hundred bytes.)
		}
	}
}

// isOver tells whether stand has come to its end, and asks what there is reason to ask.
func (p *place) isOver(wait context.Context) bool {
	l := p.line
	if l.base.Over(wait) != nil || l.refused() != nil {
		return true
	}
	ls := l.lines
	ls.mu.Lock()
	if p.foreign && p.own == nil {
		ls.mu.Unlock()
		// A poll would find that it is to be called, a second later. (Not for all: it is a channel for each waiter.)
		own := ls.client.hub.Listen(l.server.queuer.Mailbox(p.grant.id), (*calls)(l))
		ls.mu.Lock()
		p.own = own
	}
	defer ls.mu.Unlock()
	switch {
	case p.result != nil:
		return true
	case p.asking != nil:
		return false
	case p.entering && !l.confirmed && !control.Listening.Off():
		return false
	case p.entering:
		p.entering, p.look = false, true
	case p.handed != nil:
		return true
	}
	if p.look {
		ls.askLocked(p, true)
	}
	return false
}

// signalLocked says that there is reason to ask, or a grant.
func (p *place) signalLocked() {
	p.look = true
	p.wakeLocked()
}

func (p *place) wakeLocked() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// take takes what the waiter was woken for.
func (p *place) take() (*remote.Outcome, *handed) {
	p.line.lines.mu.Lock()
	defer p.line.lines.mu.Unlock()
	result, got := p.result, p.handed
	p.result = nil
	if result == nil {
		p.handed = nil
	}
	return result, got
}
