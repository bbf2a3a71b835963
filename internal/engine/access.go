package engine

import (
	"context"
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
func (c *Client) Single() lua.Processor { return c.single }

// IsCluster reports whether the client's server is one of a Redis Cluster, or a client for those.
func (c *Client) IsCluster() bool { return c.cluster != nil }

// Hub has the client's subscriptions.
func (c *Client) Hub() *pubsub.Hub { return c.hub }

// ServerClock is what is known of the server's clock.
func (c *Client) ServerClock() *clock { return &c.clock }

// Publish is the command that announces a release.
func (c *Client) Publish() string { return c.publish }

// DefaultLease is that of the client's options.
func (c *Client) DefaultLease() time.Duration { return c.opts.Lease }
