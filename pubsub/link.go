package pubsub

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// batch is how many channels one SUBSCRIBE carries at most: enough to make the round trips of 10
// 000 few, small enough not to hold up the server.
const batch = 500

var (
	errSilent = errors.New("pubsub: no answer to a ping")
	errSlow   = errors.New("pubsub: connecting takes too long")
	errUnused = errors.New("pubsub: connection no longer used")
	// errDoubted is what [Subscription.Reconnect] says.
	errDoubted = errors.New("pubsub: messages are published elsewhere")
)

// link is the one subscriber connection to a server and what is, or is to be, subscribed on it.
type link struct {
	hub   *Hub
	route route
	work  chan struct{} // 1-buffered: there is something for the keeper to send or to time

	// Guarded by hub.mu.
	topics   map[string]*topic
	idle     idle      // those of the topics that nobody waits for
	want     []*topic  // to subscribe; those no longer queued here are skipped
	drop     []string  // to unsubscribe, always before what is in want: a name that is in both is wanted again
	sent     []command // of the present connection, awaiting replies, oldest first
	sweeping bool      // the keeper knows that a topic is idle, or that all have gone
	emptyAt  time.Time // when the last topic went
	doubted  bool      // the present connection is to be replaced
	looking  bool      // a look at where commands go is under way

	follower follower // the keeper's
}

func newLink(h *Hub, r route) *link {
	return &link{hub: h, route: r, work: make(chan struct{}, 1), topics: make(map[string]*topic)}
}

// queueLocked has t subscribed by the keeper.
func (l *link) queueLocked(t *topic) {
	t.state = queued
	l.want = append(l.want, t)
	kick(l.work)
}

func (l *link) removeLocked(t *topic) {
	if l.topics[t.channel] != t {
		return
	}
	delete(l.topics, t.channel)
	l.idle.remove(t)
	t.link = nil
	if len(l.topics) == 0 {
		l.emptyAt = time.Now()
		l.idlingLocked()
	}
}

// leftLocked notes that nobody waits for t any more.
func (l *link) leftLocked(t *topic) {
	l.idle.push(t)
	l.idlingLocked()
}

// idlingLocked makes the keeper look for what has lingered long enough. It is woken for the first
// only: where a name is joined and left at a high rate this is a comparison.
func (l *link) idlingLocked() {
	if !l.sweeping {
		l.sweeping = true
		kick(l.work)
	}
}

// keep is the keeper: it sees to it that there is a connection as long as there are topics, one at
// a time.
func (l *link) keep() {
	attempts := 0
	defer l.changed(true, nil) // nobody needs one any more, or it is elsewhere
	for {
		c := l.dial()
		err := l.serve(c)
		if l.hub.ctx.Err() != nil || errors.Is(err, errUnused) {
			return
		}
		// A connection that lived for a while starts the delays anew; one that comes up only to
		// break does not.
		if c.age() > backoffMax {
			attempts = 0
		}
		attempts++
		l.lost(err)
		l.changed(false, err)
		if !l.pause(backoff(attempts)) {
			return
		}
	}
}

// pause waits before the next connection. It is false when there is to be none.
func (l *link) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.hub.ctx.Done():
		return false
	}
	return !l.retire(true)
}

// serve works for one connection until that is over, and joins its reader. errUnused says that the
// link is no longer in the hub and its keeper must end.
func (l *link) serve(c *conn) error {
	timer := time.NewTimer(l.hub.opts.Ping)
	defer timer.Stop()
	opened := c.opened
	up := false
	slowAt := time.Now().Add(l.hub.opts.Ping)
	for {
		select {
		case <-c.done:
			return c.err
		case <-l.hub.ctx.Done():
			return c.end(context.Cause(l.hub.ctx))
		case <-opened:
			up, opened = true, nil
			l.changed(true, nil)
		case <-l.work:
		case <-timer.C:
		}
		next := l.sweep()
		if up && l.isDoubted() {
			return c.end(errDoubted)
		}
		if l.retire(false) {
			return c.end(errUnused)
		}
		var wait time.Duration
		if up {
			elsewhere, look := l.follow(c)
			if elsewhere {
				return c.end(errDoubted)
			}
			var err error
			if wait, err = l.advance(c); err != nil {
				return c.end(err)
			}
			wait = min(wait, look)
		} else if wait = time.Until(slowAt); wait <= 0 {
			// The dial cannot always be cut off (see the package comment), but the topics can go
			// elsewhere.
			c.cancel()
			l.lost(errSlow)
			wait = l.hub.opts.Ping
			slowAt = time.Now().Add(wait)
		}
		timer.Reset(min(wait, next))
	}
}

// isDoubted tells once that the connection is to be replaced.
func (l *link) isDoubted() bool {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	doubted := l.doubted
	l.doubted = false
	return doubted
}

// advance sends what is to be sent and pings a silent server. It returns when it wants to be called
// again.
func (l *link) advance(c *conn) (time.Duration, error) {
	for _, cmd := range l.take() {
		if err := c.write(cmd); err != nil {
			return 0, err
		}
	}
	ping := l.hub.opts.Ping
	heard, now := c.heardAt(), time.Now()
	if silence := now.Sub(heard); silence < ping {
		return ping - silence, nil
	}
	if c.pinged.After(heard) {
		if wait := c.pinged.Add(ping).Sub(now); wait > 0 {
			return wait, nil
		}
		return 0, errSilent
	}
	c.pinged = now
	cmd := command{kind: pingCommand}
	l.note(cmd)
	return ping, c.write(cmd)
}

// retire takes the link out of the hub if it has no topics and has been so for the linger time, or
// (now) at once. That is decided under the lock under which topics are attached: a Subscribe that
// comes later makes a new link.
func (l *link) retire(now bool) bool {
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(l.topics) > 0 {
		return false
	}
	if !now && time.Since(l.emptyAt) < h.opts.Linger {
		return false
	}
	if h.links[l.route] == l {
		delete(h.links, l.route)
	}
	return true
}

// take turns what is wanted into commands and notes them as sent, so that no reply can come before
// its note.
func (l *link) take() []command {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	size := batch
	if l.route.sharded {
		size = 1 // a command for two slots is refused whole
	}
	var cmds []command
	for len(l.drop) > 0 {
		n := min(size, len(l.drop))
		cmds = append(cmds, command{kind: unsubscribeCommand, channels: l.drop[:n:n]})
		l.drop = l.drop[n:]
	}
	l.drop = nil
	var group []*topic
	for _, t := range l.want {
		if t.link != l || t.state != queued {
			continue
		}
		t.state = subscribing
		if t.alone {
			cmds = append(cmds, subscribeTo(t))
			continue
		}
		if group = append(group, t); len(group) == size {
			cmds = append(cmds, subscribeTo(group...))
			group = nil
		}
	}
	if len(group) > 0 {
		cmds = append(cmds, subscribeTo(group...))
	}
	l.want = nil
	l.sent = append(l.sent, cmds...)
	return cmds
}

func (l *link) note(cmd command) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	l.sent = append(l.sent, cmd)
}

// lost ends what a connection had: its topics wait for the next one, here or, where channels are
// routed, where the router finds them a place. An error that no further connection would mend ends
// them.
func (l *link) lost(err error) {
	h := l.hub
	h.reload()
	fatal := permanent(err)
	if h.routed && errors.Is(err, redis.ErrClosed) {
		fatal = false // a node that left the cluster; its channels have another one
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	l.want, l.drop, l.sent, l.doubted = nil, nil, nil, false
	for _, t := range l.topics {
		switch {
		case fatal:
			h.failLocked(t, err)
		case h.routed:
			h.rerouteLocked(t)
		default:
			l.queueLocked(t)
			t.interruptLocked()
		}
	}
}
