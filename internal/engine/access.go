package engine

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/task"
	"github.com/holdfast-go/holdfast/pubsub"
	"github.com/holdfast-go/holdfast/watchdog"
)

// What backends see of a client. These are methods because an exported field would be one of
// holdfast.Client too.

// Context ends, with ErrClosed, when Close begins.
func (c *Client) Context() context.Context { return c.ctx }

// Tasks are the operations that outlive their caller. Close waits for them.
func (c *Client) Tasks() *task.Group { return &c.tasks }

// Redis reaches the client's server.
func (c *Client) Redis() redis.UniversalClient { return c.rdb }

// Server is the client's server, or its cluster.
func (c *Client) Server() *remote.Server { return c.server }

// Session is what the client sends with, to its own server or to another.
func (c *Client) Session() *remote.Session { return c.session }

// Hub has the client's subscriptions.
func (c *Client) Hub() *pubsub.Hub { return c.hub }

// RoundTrip is how long one usually takes; 0: not known.
func (c *Client) RoundTrip() time.Duration { return c.way.usual() }

// lateFor is how long an attempt goes on at most for those behind, where a round trip does not take longer. Then the
// servers are taken to be silent: the next one asks for itself, and is told what comes of that, and what nobody waits for
// is given back.
const lateFor = 250 * time.Millisecond

// overdue is when an answer is late.
func (c *Client) overdue() time.Duration {
	return max(lateFor, 2*c.way.usual())
}

// DefaultLease is that of the client's options.
func (c *Client) DefaultLease() time.Duration { return c.opts.Lease }

// Prefix is what the client puts in front of names, see [Client.InRedis].
func (c *Client) Prefix() string { return c.opts.Prefix }

// Attached is what there is one of for each client. The first who asks has it made.
func Attached[T any](c *Client, build func(*Client) *T) *T {
	if known, ok := c.attachments.of.Load(attachment[T]{}); ok {
		return known.(*T)
	}
	c.attachments.mu.Lock()
	defer c.attachments.mu.Unlock()
	if known, ok := c.attachments.of.Load(attachment[T]{}); ok {
		return known.(*T)
	}
	one := build(c)
	c.attachments.of.Store(attachment[T]{}, one)
	return one
}

// InLine is how many callers stand in the client's own queues for a name: those in front, who ask the
// server for it or hold it, and those behind. Of kinds whose waiters have places at the server these are
// none.
func (c *Client) InLine(name string) int { return c.queue.InLine(name) }

// RenewNow renews the client's renewed holds of a name now, of every kind: see [Lock.RenewNow].
func (c *Client) RenewNow(name string) {
	c.dogs.of.Range(func(_, dog any) bool {
		dog.(*watchdog.Watchdog).RenewNow(func(o watchdog.Owner) bool {
			key, _ := o.(leased).of()
			return key.Name == name
		})
		return true
	})
}
