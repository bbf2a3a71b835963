package fairlock

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/pubsub"
)

// waiter is one call of Lock that waits in a waitlist.
//
// There may be ten thousand, so a waiter costs little: its goroutine asks nothing itself, which
// would take a deep stack that it keeps, nor does it start another. It leaves its questions to the
// [asker], and is parked near the top of its stack until they have come to something.
type waiter struct {
	list        *waitlist
	acquisition *engine.Acquisition
	wake        chan struct{} // 1-buffered: something has changed
	since       time.Time     // before the place was asked for

	// Guarded by the waitlists' mu.
	asking *inquiry        // that has no end yet
	result *remote.Outcome // of the last question, for the waiter
	handed *handed         // nil, or a grant of which a message told
	// the server's time, in microseconds, when it last said that the place has not been granted yet
	refusedAt int64
	look      bool // there is reason to ask
	entering  bool // waits for the mailbox to be confirmed
	foreign   bool // one of Redisson's may be the one that calls this owner next

	own *pubsub.Subscription // where that one calls; of the waiter
}

// handed is a grant of which a message told.
type handed struct {
	token  string
	micros int64     // when, by the server's clock
	sent   time.Time // not later than that, by this process's clock
	claim  time.Duration
}

var _ engine.Place = (*waiter)(nil)

// waiterLocking makes a waiter of an acquisition, in the waitlist of the lock's name. It returns
// with the waitlists' mutex held.
func (s *server) waiterLocking(a *engine.Acquisition) *waiter {
	ls := s.lists
	p := &waiter{acquisition: a, wake: make(chan struct{}, 1), since: time.Now(), entering: true}
	a.Entry().SetPlaced(true) // until it is live: whoever leaves gives its place back
	ls.mu.Lock()
	if p.list = ls.lists[s.base.Key]; p.list == nil {
		ls.mu.Unlock()
		p.list = ls.open(s)
	}
	p.list.waiters[a.Owner()] = p
	return p
}

// Stand waits until there is something for the waiter to do: it has the answer that it waits for,
// or was handed the lock, or nobody should wait any more. It is called near the top of the stack:
// what is called from here has to be shallow.
func (p *waiter) Stand() {
	ended := p.acquisition.Context().Done()
	for !p.isOver() {
		select {
		case <-p.wake:
		case <-ended: // (That of the client wakes too. To watch it costs each waiter a hundred bytes.)
		}
	}
}

// isOver reports whether Stand has come to its end, and asks what there is reason to ask.
func (p *waiter) isOver() bool {
	l := p.list
	if p.acquisition.Over() != nil || l.refused() != nil {
		return true
	}
	ls := l.lists
	ls.mu.Lock()
	if p.foreign && p.own == nil {
		ls.mu.Unlock()
		// A poll would find that it is to be called, a second later. (Not for all: it is a channel
		// for each waiter.)
		own := ls.client.Hub().Listen(l.server.protocol.Mailbox(p.acquisition.Owner()), (*redissonCalls)(l))
		ls.mu.Lock()
		p.own = own
	}
	defer ls.mu.Unlock()
	switch {
	case p.result != nil:
		return true
	case p.asking != nil:
		return false
	case p.entering && !l.confirmed:
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
func (p *waiter) signalLocked() {
	p.look = true
	p.wakeLocked()
}

func (p *waiter) wakeLocked() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// news takes what the waiter was woken for.
func (p *waiter) news() (*remote.Outcome, *handed) {
	p.list.lists.mu.Lock()
	defer p.list.lists.mu.Unlock()
	result, got := p.result, p.handed
	p.result = nil
	if result == nil {
		p.handed = nil
	}
	return result, got
}

// Take gets the hold of a place, and has it asked for again when the lock was handed over in a way
// that is not enough.
func (p *waiter) Take() (*engine.Hold, error) {
	ls, a := p.list.lists, p.acquisition
	defer ls.leave(p)
	for {
		if cause := a.Over(); cause != nil {
			p.missed()
			return nil, a.Left(cause)
		}
		result, got := p.news()
		if result != nil {
			p.heard()
			return a.Answer(*result)
		}
		if err := p.list.refused(); err != nil {
			ls.retire(p.list)
			return nil, err
		}
		// The word of an earlier grant to the same owner may come late.
		if got != nil && got.micros > p.refusedAt {
			if h, err := a.Accept(got.sent, got.token, got.claim); h != nil || err != nil {
				return h, err
			}
		}
		p.Stand()
	}
}

// missed notes, for a waiter that leaves, what its client's last poll said of the holder, or that
// it had no answer.
func (p *waiter) missed() {
	p.list.lists.mu.Lock()
	err := p.list.failed
	p.list.lists.mu.Unlock()
	if err != nil {
		p.acquisition.Failed().Store(&err)
	}
	p.heard()
}

// heard notes what was said last of the holder to somebody in the waitlist.
func (p *waiter) heard() {
	p.list.lists.mu.Lock()
	said := p.list.said
	p.list.lists.mu.Unlock()
	p.acquisition.Hear(said)
}
