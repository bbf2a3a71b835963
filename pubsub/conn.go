package pubsub

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/panics"
)

var errEnded = errors.New("pubsub: connection ended before a write")

// conn is one connection of a link. Its reader goroutine opens it, reads from it and closes it; the
// link's keeper writes to it once it is open, and ends it.
type conn struct {
	link   *link
	ctx    context.Context // of the dial
	cancel context.CancelFunc
	ps     *redis.PubSub // set before opened is closed
	addr   string        // of the server, if it may be replaced unseen; set before opened is closed
	opened chan struct{} // closed when the keeper may write
	done   chan struct{} // closed when the reader has ended
	err    error         // why; set before done is closed

	born   time.Time
	heard  atomic.Int64 // when the server was last heard of, in nanoseconds since born
	pinged time.Time    // the keeper's
}

// dial starts the reader of a new connection. The hub may be closing: its context then ends the
// dial at once.
func (l *link) dial() *conn {
	c := &conn{link: l, opened: make(chan struct{}), done: make(chan struct{}), born: time.Now()}
	c.ctx, c.cancel = context.WithCancel(l.hub.ctx)
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	l.hub.goLocked(c.read) // also when closed: the keeper, which Close waits for, waits for it
	return c
}

func (c *conn) read() {
	defer close(c.done)
	defer c.cancel()
	defer panics.Into(&c.err)                 // of a dialer: one more connection that was lost
	c.ps = c.link.route.node.Subscribe(c.ctx) // without channels: nothing is sent yet
	defer func() { _ = c.ps.Close() }()       // its error tells that the keeper was first
	if c.err = c.open(); c.err != nil {
		return
	}
	defer c.count(-1)
	for c.err == nil {
		c.err = c.receive()
	}
}

// open dials by way of a PING: the only command that a PubSub sends without knowing a channel, so
// that after it nothing has to dial.
func (c *conn) open() error {
	c.link.note(command{kind: pingCommand})
	ctx := c.ctx
	if h := c.link.hub; h.moves && !h.routed {
		ctx = h.dials.note(ctx, h.rdb, &c.addr)
	}
	if err := c.ps.Ping(ctx); err != nil {
		return err
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	c.hear()
	c.count(1)
	close(c.opened)
	return nil
}

func (c *conn) count(n int) {
	c.link.hub.mu.Lock()
	defer c.link.hub.mu.Unlock()
	c.link.hub.connections += n
}

// end closes the connection, waits for its reader, and returns why. One that still dials is not
// closed from here, since the PubSub holds a mutex meanwhile: its reader sees the cancelled
// context. But it may have looked just before that, so that the connection opens, and reads on,
// although the keeper has never seen it open.
func (c *conn) end(why error) error {
	c.cancel()
	select {
	case <-c.opened:
		_ = c.ps.Close()
	case <-c.done:
	}
	<-c.done
	return why
}

// receive reads one reply or push. Every error but a refusal that can be attributed to a command
// ends the connection.
func (c *conn) receive() error {
	msg, err := c.ps.ReceiveTimeout(noDial{}, 0)
	if err != nil {
		if !isReply(err) {
			return err
		}
		c.hear()
		return c.link.refused(err)
	}
	c.hear()
	switch msg := msg.(type) {
	case *redis.Message:
		c.link.hub.deliver(msg.Channel, msg.Payload)
	case *redis.Subscription:
		switch msg.Kind {
		case "subscribe", "ssubscribe":
			return c.link.subscribed(msg.Channel)
		case "unsubscribe", "sunsubscribe":
			c.link.unsubscribed(msg.Channel)
		}
	case *redis.Pong:
		c.link.ponged()
	}
	return nil
}

// write sends a command that has been noted. It does not wait for the reply, and not longer than
// the time of a ping for a server that no longer reads. When the reader has already seen the
// connection break and closed the PubSub, go-redis says the words that it has for a closed client,
// which is permanent; here it is only one more lost connection. A client that is really closed says
// so at the next dial.
func (c *conn) write(cmd command) error {
	err := c.send(cmd)
	if errors.Is(err, redis.ErrClosed) {
		return errEnded
	}
	return err
}

func (c *conn) send(cmd command) error {
	ctx := noDial{until: time.Now().Add(c.link.hub.opts.Ping)}
	channels := cmd.names()
	switch {
	case cmd.kind == pingCommand:
		return c.ps.Ping(ctx)
	case cmd.kind == subscribeCommand && c.link.route.sharded:
		return c.ps.SSubscribe(ctx, channels...)
	case cmd.kind == subscribeCommand:
		return c.ps.Subscribe(ctx, channels...)
	case c.link.route.sharded:
		return c.ps.SUnsubscribe(ctx, channels...)
	case cmd.kind == unsubscribeCommand:
		return c.ps.Unsubscribe(ctx, channels...)
	}
	return fmt.Errorf("pubsub: unknown command %d", cmd.kind)
}

func (c *conn) hear()              { c.heard.Store(int64(time.Since(c.born))) }
func (c *conn) heardAt() time.Time { return c.born.Add(time.Duration(c.heard.Load())) }
func (c *conn) age() time.Duration { return time.Since(c.born) }

// noDial is the context of everything done on an open connection. A PubSub that sees an error dials
// again inside the call, under its mutex, and subscribes anew, and reports none of it; with a context
// that has ended that dial fails at once and the error comes out. Reads and writes do not look at
// whether a context has ended, only at its deadline. (A dialer that ignores its context, like
// go-redis's for TLS, still dials; the connection is then thrown away with the PubSub, and only
// time is lost.) Rejected: living with the silent dial and taking every confirmation for a wake-up.
// The order of replies, by which refusals find their channel, would be unknown after it.
type noDial struct{ until time.Time }

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (c noDial) Deadline() (time.Time, bool) { return c.until, !c.until.IsZero() }
func (noDial) Done() <-chan struct{}         { return closedChan }
func (noDial) Err() error                    { return context.Canceled }
func (noDial) Value(any) any                 { return nil }
