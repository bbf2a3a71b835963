package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/task"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/pubsub"
)

// What backends see of a client. These are methods because an exported field would be one of holdfast.Client too.

// Context ends, with ErrClosed, when Close begins.
func (c *Client) Context() context.Context { return c.ctx }

// Tasks are the operations that outlive their caller. Close waits for them.
func (c *Client) Tasks() *task.Group { return &c.tasks }

// Redis reaches the client's server.
func (c *Client) Redis() redis.UniversalClient { return c.rdb }

// Single sends single operations.
func (c *Client) Single() lua.Processor { return c.server.single }

// IsCluster reports whether the client's server is one of a Redis Cluster, or a client for those.
func (c *Client) IsCluster() bool { return c.cluster != nil }

// Hub has the client's subscriptions.
func (c *Client) Hub() *pubsub.Hub { return c.hub }

// ServerClock is what is known of the server's clock.
func (c *Client) ServerClock() *clock { return &c.server.clock }

// Publish is the command that announces a release.
func (c *Client) Publish() string { return c.publish }

// DefaultLease is that of the client's options.
func (c *Client) DefaultLease() time.Duration { return c.opts.Lease }

// Budget is for how long an operation may go on.
func (c *Client) Budget() time.Duration { return c.session.budget() }

// NotePanic is [session.notePanic].
func (c *Client) NotePanic(err error) { c.session.notePanic(err) }

// Meet is [server.meet].
func (c *Client) Meet(ctx context.Context) error { return c.server.meet(ctx) }

// Call is [session.call].
func (c *Client) Call(ctx context.Context, run action, late func(Outcome)) (o Outcome, ok bool) {
	return c.session.call(ctx, run, late)
}

// repeat is [session.repeat] at the client's own server.
func (c *Client) repeat(ctx context.Context, op Operation, failed *atomic.Pointer[error]) Outcome {
	return c.session.repeat(ctx, c.server, op, failed)
}

// RepeatFor is [session.repeat], for a lock whose holds belong to the home client: its options and its end count.
func (c *Client) RepeatFor(ctx context.Context, home *Client, op Operation, failed *atomic.Pointer[error]) Outcome {
	return home.session.repeat(ctx, c.server, op, failed)
}

// RepeatOnce is [session.repeatOnce] at the client's own server.
func (c *Client) RepeatOnce(ctx context.Context, op Operation, failed *atomic.Pointer[error]) Outcome {
	return c.session.repeatOnce(ctx, c.server, op, failed)
}

// detached is [session.detached] at the client's own server.
func (c *Client) detached(ctx context.Context, op Operation) Outcome {
	return c.session.detached(ctx, c.server, op)
}

// UndoAt is [session.undo] at the server of another client, which may be closed already.
func (c *Client) UndoAt(to *Client, b *Base, id string, rest, lease time.Duration, stray bool) {
	c.session.undo(to.server, b.wire, id, rest, lease, stray)
}

// masterOf is [server.masterOf].
func (c *Client) masterOf(name string) *redis.Client { return c.server.masterOf(name) }

// byMaster is [groups] at the client's own server.
func byMaster[T any](c *Client, all []T, name func(T) string) map[*redis.Client][]T {
	return groups(c.server, all, name)
}
