package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/task"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/pubsub"
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

// NewEffort begins an operation at that server whose attempts somebody else sends, see
// [remote.NewEffort].
func (c *Client) NewEffort() remote.Effort { return remote.NewEffort(c.server, c.session) }

// RoundTrip is how long one usually takes; 0: not known.
func (c *Client) RoundTrip() time.Duration { return c.way.usual() }

// Single sends single operations.
func (c *Client) Single() lua.Processor { return c.server.Single }

// IsCluster reports whether the client's server is one of a Redis Cluster, or a client for those.
func (c *Client) IsCluster() bool { return c.cluster != nil }

// Hub has the client's subscriptions.
func (c *Client) Hub() *pubsub.Hub { return c.hub }

// ServerClock is what is known of the server's clock.
func (c *Client) ServerClock() *remote.Clock { return &c.server.Clock }

// Publish is the command that announces a release.
func (c *Client) Publish() string { return c.publish }

// DefaultLease is that of the client's options.
func (c *Client) DefaultLease() time.Duration { return c.opts.Lease }

// Budget is for how long an operation may go on.
func (c *Client) Budget() time.Duration { return c.session.Budget() }

// NotePanic is [remote.Session.NotePanic].
func (c *Client) NotePanic(err error) { c.session.NotePanic(err) }

// Meet is [remote.Server.Meet].
func (c *Client) Meet(ctx context.Context) error { return c.server.Meet(ctx) }

// Call is [remote.Session.Call].
func (c *Client) Call(ctx context.Context, run remote.Action, late func(remote.Outcome)) (o remote.Outcome, ok bool) {
	return c.session.Call(ctx, run, late)
}

// repeat is [remote.Session.Repeat] at the client's own server.
func (c *Client) repeat(ctx context.Context, op remote.Operation, failed *atomic.Pointer[error]) remote.Outcome {
	return c.session.Repeat(ctx, c.server, op, failed)
}

// RepeatFor is [remote.Session.Repeat], for a lock whose holds belong to the home client: its
// options and its end count.
func (c *Client) RepeatFor(ctx context.Context, home *Client, op remote.Operation,
	failed *atomic.Pointer[error]) remote.Outcome {
	return home.session.Repeat(ctx, c.server, op, failed)
}

// RepeatOnce is [remote.Session.RepeatOnce] at the client's own server.
func (c *Client) RepeatOnce(ctx context.Context, op remote.Operation, failed *atomic.Pointer[error]) remote.Outcome {
	return c.session.RepeatOnce(ctx, c.server, op, failed)
}

// detached is [remote.Session.Detached] at the client's own server.
func (c *Client) detached(ctx context.Context, op remote.Operation) remote.Outcome {
	return c.session.Detached(ctx, c.server, op)
}

// UndoAt is [remote.Session.Undo] at the server of another client, which may be closed already.
func (c *Client) UndoAt(to *Client, b *Lock, id string, rest, lease time.Duration, stray bool) {
	c.session.Undo(to.server, b.wire, id, rest, lease, stray)
}

// masterOf is [remote.Server.MasterOf].
func (c *Client) masterOf(name string) *redis.Client { return c.server.MasterOf(name) }

// byMaster is [remote.ByMaster] at the client's own server.
func byMaster[T any](c *Client, all []T, name func(T) string) map[*redis.Client][]T {
	return remote.ByMaster(c.server, all, name)
}
