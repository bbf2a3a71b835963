package redlock

import (
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/pubsub"
)

// listener listens at all masters for a release.
type listener struct {
	wake chan struct{}
	subs []*pubsub.Subscription
}

// Listen is [engine.Backend.Listen].
func (q *quorum) Listen() engine.Listening {
	e := &listener{wake: make(chan struct{}, 1)}
	for _, v := range q.voters {
		e.subs = append(e.subs, v.client.Hub().Listen(q.voter.Channel(), e))
	}
	return e
}

// Message is [pubsub.Listener].
func (e *listener) Message(string) { e.Look(true) }

// Look is [pubsub.Listener].
func (e *listener) Look(bool) {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Wake is [engine.Listening].
func (e *listener) Wake() <-chan struct{} { return e.wake }

// Err is [engine.Listening]: one master is enough.
func (e *listener) Err() (err error) {
	for _, s := range e.subs {
		if err = s.Err(); err == nil {
			return nil
		}
	}
	return err
}

// Confirmed is [engine.Listening]. A majority is enough: a release is announced at each master that the lock
// was held at, and these are a majority too.
func (e *listener) Confirmed() bool {
	n := 0
	for _, s := range e.subs {
		if s.Confirmed() {
			n++
		}
	}
	return n > len(e.subs)/2
}

// Close is [engine.Listening].
func (e *listener) Close() {
	for _, s := range e.subs {
		s.Close()
	}
}
