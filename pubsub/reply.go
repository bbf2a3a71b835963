package pubsub

import (
	"errors"
	"time"
)

var errProtocol = errors.New("pubsub: a confirmation that no command asked for")

type commandKind int

const (
	pingCommand commandKind = iota
	subscribeCommand
	unsubscribeCommand
)

// command is what was sent and has not been answered in full. Redis answers in order, with one
// reply per channel or one error for the command, so the oldest command is always the one that is
// answered; that is how an error, which names neither command nor channel, finds them. A command
// holds topics, not names: the topic that a confirmation is for may be gone, and the channel have a
// new one whose own command is still under way.
type command struct {
	kind     commandKind
	topics   []*topic // subscribeCommand: not yet confirmed
	channels []string // unsubscribeCommand: not yet confirmed
}

func subscribeTo(topics ...*topic) command {
	return command{kind: subscribeCommand, topics: topics}
}

func (c command) names() []string {
	if c.kind != subscribeCommand {
		return c.channels
	}
	names := make([]string, len(c.topics))
	for i, t := range c.topics {
		names[i] = t.channel
	}
	return names
}

// headLocked is the command that is being answered, if it is of that kind.
func (l *link) headLocked(kind commandKind) *command {
	if len(l.sent) == 0 || l.sent[0].kind != kind {
		return nil
	}
	return &l.sent[0]
}

func (l *link) popLocked() {
	if l.sent = l.sent[1:]; len(l.sent) == 0 {
		l.sent = nil // lets go of the array
	}
}

func (l *link) ponged() {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if l.headLocked(pingCommand) != nil {
		l.popLocked()
	}
}

func (l *link) subscribed(channel string) error {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	head := l.headLocked(subscribeCommand)
	if head == nil || head.topics[0].channel != channel {
		return errProtocol
	}
	t := head.topics[0]
	if head.topics = head.topics[1:]; len(head.topics) == 0 {
		l.popLocked()
	}
	if t.link == l && t.state == subscribing {
		t.confirmLocked()
	}
	return nil
}

// unsubscribed takes the answer to our own command, or the server's word that a channel is
// subscribed here no longer: its slot has moved. The two look the same. If both are under way for a
// channel the second of them is taken for the server's own word when it is not, which at worst
// routes a topic once more.
func (l *link) unsubscribed(channel string) {
	if l.ownUnsubscribe(channel) {
		return
	}
	l.hub.reload()
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	t := l.topics[channel]
	if t == nil || t.state != confirmed {
		return // a subscription under way is answered for itself
	}
	l.elsewhereLocked(t)
}

func (l *link) ownUnsubscribe(channel string) bool {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	head := l.headLocked(unsubscribeCommand)
	if head == nil || head.channels[0] != channel {
		return false
	}
	if head.channels = head.channels[1:]; len(head.channels) == 0 {
		l.popLocked()
	}
	return true
}

// elsewhereLocked subscribes t again, where the router says, or here if there is but one place.
func (l *link) elsewhereLocked(t *topic) {
	if l.hub.routed {
		l.hub.rerouteLocked(t)
		return
	}
	l.queueLocked(t)
	t.interruptLocked()
}

// refused attributes an error reply. It returns the error if it must end the connection: when no
// command was under way, the server says something about the connection; when it will pass and
// there is no other place for the channels, a new connection is tried after the delay that belongs
// to it.
func (l *link) refused(err error) error {
	if isMoved(err) || transient(err) {
		l.hub.reload()
	}
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if len(l.sent) == 0 {
		return err
	}
	head := l.sent[0]
	l.popLocked()
	if head.kind != subscribeCommand {
		return nil // even an error shows that the server is there, and an unsubscription is wanted by nobody
	}
	return l.refuseLocked(head.topics, err)
}

func (l *link) refuseLocked(topics []*topic, err error) error {
	unknown := l.route.sharded && isUnknownCommand(err)
	if unknown {
		l.hub.classic[l.route.node] = time.Now()
	}
	if !l.hub.routed && transient(err) {
		return err
	}
	for _, t := range topics {
		switch {
		case t.link != l || t.state != subscribing: // moved or gone meanwhile
		case unknown || transient(err):
			l.hub.rerouteLocked(t)
		case len(topics) > 1:
			t.alone = true // which one it was shows when each is asked for by itself
			l.queueLocked(t)
		default:
			l.hub.failLocked(t, err)
		}
	}
	return nil
}
