package fair

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/pubsub"
)

// waiter is one call of Lock that waits in a waitlist.
//
// There may be ten thousand waiters, so a waiter must cost little. Its goroutine sends nothing itself,
// because that would take a deep stack, which the goroutine would keep. Nor does it start another
// goroutine. It leaves its requests to the [sender], and sleeps near the top of its stack until there
// is an answer.
type waiter struct {
	list        *waitlist
	acquisition *engine.Acquisition
	owner       string        // of the place; the acquisition gets another owner when a run hands it the lock
	wake        chan struct{} // 1-buffered: something has changed
	since       time.Time     // a time before the request for the place

	// Guarded by the waitlists' mu.
	request *request        // the request that has not ended yet
	result  *remote.Outcome // the outcome of the last request, for the waiter
	granted *grantMessage   // a grant that a message has announced, or nil
	// the server's time, in microseconds, of the last answer that refused the lock to the place
	refusedAt int64
	asked     bool // it has asked for a place
	mustAsk   bool // there is a reason to ask
	takenOver bool // a run of this client has handed the lock off to it
	taking    bool // it makes a hold of a result or a grant, and a run must not hand it the lock
	entering  bool // waits for the mailbox to be confirmed, or given up
	foreign   bool // a client of Redisson may call this owner next

	own *pubsub.Subscription // the channel of such a call
}

// grantMessage is a grant that a message has announced.
type grantMessage struct {
	token  string
	micros int64     // the time of the grant, by the server's clock
	sent   time.Time // a time not later than the grant, by this process's clock
	claim  time.Duration
	next   []string // the others of the run: owners without their client
}

var _ engine.Place = (*waiter)(nil)

// waiterLocking makes a waiter of an acquisition, in the waitlist of the lock's name. It returns
// with the waitlists' mutex held.
func (s *server) waiterLocking(a *engine.Acquisition) *waiter {
	ls := s.lists
	p := &waiter{acquisition: a, owner: a.Owner(), wake: make(chan struct{}, 1), since: time.Now(), entering: true}
	ls.mu.Lock()
	if p.list = ls.lists[s.base.Key]; p.list == nil {
		ls.mu.Unlock()
		p.list = ls.open(s)
	}
	p.list.waiters[p.owner] = p
	a.Share(&p.list.note)
	return p
}

// waiting is the place that polls keep.
func (p *waiter) waiting() Waiting { return Waiting{Owner: p.owner, Use: p.acquisition.Place()} }

// Stand waits until there is something for the waiter to do: its answer has arrived, the lock was
// handed to it, or the wait is over. It is called near the top of the stack, and functions that it
// calls must need little stack.
func (p *waiter) Stand() {
	ended := p.acquisition.Context().Done()
	for !p.isOver() {
		select {
		case <-p.wake:
		case <-ended: // (The client's end sends to wake: watching its context costs a waiter 100 bytes.)
		}
	}
}

// isOver reports whether Stand should return. It also asks the server if there is a reason to.
func (p *waiter) isOver() bool {
	l := p.list
	if p.acquisition.Over() != nil || l.refused() != nil {
		return true
	}
	ls := l.lists
	ls.mu.Lock()
	if p.foreign && p.own == nil {
		ls.mu.Unlock()
		// Without this subscription a poll would find the call a second later. (Not for all
		// waiters: each needs a channel of its own.)
		own := ls.client.Hub().Listen(l.server.protocol.Mailbox(p.owner), (*redissonCalls)(l))
		ls.mu.Lock()
		p.own = own
	}
	defer ls.mu.Unlock()
	p.taking = false
	switch {
	case p.takenOver, p.result != nil:
		return true
	case p.request != nil:
		return false
	case p.entering && !l.confirmed && !l.cannotListen:
		return false
	case p.entering:
		p.entering, p.mustAsk = false, true
	case p.granted != nil:
		return true
	}
	if p.mustAsk {
		ls.askLocked(p, true)
	}
	return false
}

// signalLocked tells the waiter that there is a reason to ask, or a grant.
func (p *waiter) signalLocked() {
	p.mustAsk = true
	p.wakeLocked()
}

func (p *waiter) wakeLocked() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// takeNews takes the result or grant for which the waiter was woken.
func (p *waiter) takeNews() (*remote.Outcome, *grantMessage) {
	p.list.lists.mu.Lock()
	defer p.list.lists.mu.Unlock()
	result, granted := p.result, p.granted
	p.result = nil
	if result == nil {
		p.granted = nil
	}
	p.taking = result != nil || granted != nil
	return result, granted
}

// askAgain makes the waiter ask once more: its grant came too late.
func (p *waiter) askAgain() {
	p.list.lists.mu.Lock()
	defer p.list.lists.mu.Unlock()
	p.mustAsk = true
}

// Take returns the hold of a waiter. If a grant turns out not to be enough, it asks and waits again.
func (p *waiter) Take() (*engine.Hold, error) {
	h, err := p.take()
	if p.list.lists.leave(p) {
		return p.acquisition.TakeOver()
	}
	return h, err
}

// take is Take without the hand-off by a run, for which it returns neither a hold nor an error.
func (p *waiter) take() (*engine.Hold, error) {
	ls, a := p.list.lists, p.acquisition
	for {
		if p.isTakenOver() {
			return nil, nil
		}
		if cause := a.Over(); cause != nil {
			return nil, a.WaitError(cause)
		}
		result, granted := p.takeNews()
		if result != nil {
			if h, err := a.Answer(*result); h != nil || err != nil {
				return h, err
			}
			p.askAgain()
			continue
		}
		if err := p.list.refused(); err != nil {
			ls.retire(p.list)
			return nil, err
		}
		// The message of an earlier grant to the same owner may come late.
		if granted != nil && granted.micros > p.refusedAt {
			if h, err := a.Accept(granted.sent, granted.token, granted.claim, p.list.runOf(granted.next)); h != nil || err != nil {
				return h, err
			}
		}
		p.Stand()
	}
}
