package pubsub

import (
	"sync/atomic"
	"time"
)

// Subscription is one waiter's membership in a channel. It is made by [Hub.Subscribe].
type Subscription struct {
	wake  chan struct{} // 1-buffered: tokens coalesce, see the package comment
	hears Listener      // in place of wake, if there is one
	topic *topic        // never changes

	// Guarded by the hub's mu. The topic's subscribers are a list through their own fields: joining
	// and leaving allocate nothing, which a map of them would.
	prev, next *Subscription
	closed     bool
}

// Wake has a token when the waiter should look at the server again: after a message, after a
// subscription or resubscription was confirmed, after the connection was lost (once per outage),
// when Err has become non-nil, and at once when the channel was confirmed already as the waiter
// joined. It is never closed.
func (s *Subscription) Wake() <-chan struct{} { return s.wake }

// Err is the error for which this channel cannot be subscribed: the server's refusal, or
// [ErrClosed]. It is set before the waiter gets the token for it, and does not change afterwards.
// While it is nil the hub keeps trying.
//
// Err takes no mutex: ten thousand may ask at the same time.
func (s *Subscription) Err() error {
	if err := s.topic.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Close leaves the channel. The linger time of the subscription begins when the last waiter leaves.
// Closing twice is harmless.
func (s *Subscription) Close() {
	h := s.topic.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.topic.removeLocked(s)
}

// Confirmed reports whether messages arrive, as far as the hub knows.
func (s *Subscription) Confirmed() bool {
	h := s.topic.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.topic.state == confirmed
}

// Reconnect tells the hub that messages do not arrive although the subscription is confirmed: its
// server is no longer the one on which messages are published. The hub replaces the connection, and
// wakes the waiters as after any outage.
func (s *Subscription) Reconnect() {
	h := s.topic.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.topic.state == confirmed && s.topic.link != nil {
		s.topic.link.doubted = true
		kick(s.topic.link.work)
	}
}

// Listener gets what is sent to a subscription. The hub calls its methods one at a time, and holds
// its mutex: they must neither block nor call the hub or its subscriptions.
type Listener interface {
	// Message is called with each message.
	Message(payload string)
	// Look is called for everything else for which [Subscription.Wake] has a token: messages may
	// have been missed, or may be from now on. confirmed says that they arrive.
	Look(confirmed bool)
}

func (s *Subscription) signal() {
	if s.hears != nil {
		s.hears.Look(s.topic.state == confirmed)
		return
	}
	kick(s.wake)
}

func (s *Subscription) message(payload string) {
	if s.hears != nil {
		s.hears.Message(payload)
		return
	}
	kick(s.wake)
}

// state is how far a topic has come, see the drawing in the package comment.
type state int

const (
	unrouted    state = iota // no link yet; the router has it
	queued                   // on a link, to be sent by its keeper
	subscribing              // sent, not answered
	confirmed                // messages arrive
	gone                     // forgotten by the hub; late replies about it mean nothing
)

// topic is a channel that somebody waits for, or did a moment ago. All but hub and channel is
// guarded by hub.mu.
type topic struct {
	hub     *Hub
	channel string

	state state
	link  *link                 // nil while unrouted
	subs  *Subscription         // head of the list of subscribers
	err   atomic.Pointer[error] // permanent; nil: none. Read without the mutex too
	alone bool                  // to be sent in a command of its own: one of several was refused
	told  bool                  // subscribers have been woken for the present outage

	idleAt   time.Time // when the last subscriber left; meaningful while subs is nil
	idles    bool      // it is in its link's list of those, between these two
	before   *topic
	after    *topic
	attempts int       // routings since the last confirmation
	due      time.Time // when the router may try again
}

func (t *topic) addLocked(s *Subscription) {
	if t.link != nil {
		t.link.idle.remove(t)
	}
	s.topic = t
	s.next = t.subs
	if s.next != nil {
		s.next.prev = s
	}
	t.subs = s
	t.hub.subscribers++
}

func (t *topic) removeLocked(s *Subscription) {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		t.subs = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
	t.hub.subscribers--
	if t.subs == nil && t.state != gone && t.err.Load() == nil {
		t.idleAt = time.Now()
		if t.link != nil {
			t.link.leftLocked(t)
		}
	}
}

func (t *topic) signalLocked() {
	for s := t.subs; s != nil; s = s.next {
		s.signal()
	}
}

// confirmLocked is the moment from which messages arrive. Those published before it are lost, so it
// wakes.
func (t *topic) confirmLocked() {
	t.state = confirmed
	t.alone, t.told, t.attempts = false, false, 0
	t.signalLocked()
}

// interruptLocked tells the subscribers, once per outage and when the state says so, that messages
// may be missed from now on. They try for themselves and see the state of the server, or its
// absence, sooner than by their own timers.
func (t *topic) interruptLocked() {
	if !t.told {
		t.told = true
		t.signalLocked()
	}
}
