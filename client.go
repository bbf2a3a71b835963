package holdfast

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/internal/master"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/task"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/pubsub"
	"github.com/holdfast-go/holdfast/watchdog"
)

// Client is one participant: what a Redisson client is to Java. Locks of all kinds are made on it. Use one per process and
// Redis, and Close it at the end. All methods are safe for concurrent use.
//
// Operations that many goroutines ask for at the same time travel together, in pipelines; hooks of go-redis see those. A
// cluster is asked for each by itself, because a pipeline over several servers ends with the slowest of them.
//
// It holds one goroutine (the watchdog's, from the first lock on), and while somebody waits one connection per server
// that it listens on. While nothing is held or waited for it sends nothing.
type Client struct {
	rdb     redis.UniversalClient
	cluster *redis.ClusterClient // rdb if it is one, else nil
	single  lua.Processor        // sends single operations: rdb, or a combiner on it
	publish string               // command that announces a release
	opts    Options
	id      string
	owners  atomic.Uint64 // number of the last owner
	handed  atomic.Int64  // how many tokens were needed when a lock was handed on the last time

	dog   *watchdog.Watchdog
	votes *watchdog.Watchdog // of locks that several masters grant: a master that is slow for those must not delay the others
	hub   *pubsub.Hub
	queue queue.Queue
	lines lines
	tasks task.Group // operations that outlive their caller

	masterOnce sync.Once
	master     *master.Master // set when the first quorum asks for it

	ctx       context.Context // ends with ErrClosed when Close begins
	cancel    context.CancelCauseFunc
	closeOnce sync.Once
	closeErr  error
}

// New makes a client on rdb, which stays the caller's: Close does not close it. nil options stand for the defaults.
// Nothing is sent.
//
// It returns an error that wraps [ErrInvalid] for options that contradict each other and for a *redis.Ring: a Ring moves
// names to another server when one does not answer, and with them every lock.
func New(rdb redis.UniversalClient, opts *Options) (*Client, error) {
	if isNil(rdb) {
		return nil, invalid("rdb is nil; pass a go-redis client, for example redis.NewClient(&redis.Options{})")
	}
	if _, ring := rdb.(*redis.Ring); ring {
		return nil, invalid("rdb is a *redis.Ring, which grants a lock twice when a server does not answer; use a " +
			"single server, Sentinel or a Cluster")
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, both{ErrInvalid, err}
	}
	c := &Client{rdb: rdb, single: rdb, publish: "PUBLISH", opts: o, id: id.String()}
	switch r := rdb.(type) {
	case *redis.ClusterClient:
		c.cluster, c.publish = r, "SPUBLISH"
	case *redis.Client: // of another kind of client we do not know to how many servers it sends
		c.single = combine.New(r, r.Options().PoolSize)
	}
	c.lines.client = c
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.dog = watchdog.New(watchdog.Config{Renew: c.renew})
	c.votes = watchdog.New(watchdog.Config{Renew: c.renewVotes})
	c.hub = pubsub.New(rdb, pubsub.Options{Linger: o.Linger})
	return c, nil
}

// isNil also sees a nil pointer of a client's type, the usual result of an ignored error.
func isNil(rdb redis.UniversalClient) bool {
	switch c := rdb.(type) {
	case nil:
		return true
	case *redis.Client:
		return c == nil
	case *redis.ClusterClient:
		return c == nil
	}
	return false
}

// ID is the client's UUID, the first part of every owner of its.
func (c *Client) ID() string { return c.id }

// newOwnerID numbers an owner. The h tells our owners from Redisson's thread numbers in a queue that both share.
func (c *Client) newOwnerID() string {
	var buf [64]byte
	id := append(buf[:0], c.id...)
	id = append(id, ":h"...)
	return string(strconv.AppendUint(id, c.owners.Add(1), 10))
}

// Close releases the client's holds (their contexts end with ErrClosed first), wakes its waiters with ErrClosed and joins
// its goroutines. It returns an error if ctx ended before that was done; what is still held then ends with its lease.
// A second call waits for the first and returns the same.
func (c *Client) Close(ctx context.Context) error {
	c.closeOnce.Do(func() { c.closeErr = c.close(ctx) })
	return c.closeErr
}

func (c *Client) close(ctx context.Context) error {
	c.cancel(ErrClosed)
	c.queue.Close(ErrClosed)
	rest, votes := c.dog.Stop(), c.votes.Stop()
	c.tasks.Go(func() { c.releaseAll(rest) })
	c.tasks.Go(func() { c.withdrawAll(votes) })
	c.tasks.Go(c.dog.Join)
	c.tasks.Go(c.votes.Join)
	hubErr := c.hub.Close(ctx)
	if err := c.tasks.Wait(ctx); err != nil {
		return err
	}
	return hubErr
}

// releaseAll frees what the client held when it was closed, in batches: it may be a hundred thousand. If the server does
// not answer it gives up; the leases end what is left.
func (c *Client) releaseAll(owners []watchdog.Owner) {
	endAll(owners)
	for batch := range slices.Chunk(owners, 500) {
		calls := make([]lua.Call, len(batch))
		for i, o := range batch {
			t := o.(*tenure)
			calls[i] = t.base.wire.Release(t.known(), c.publish)
		}
		for i, result := range lua.RunAll(context.Background(), c.rdb, calls) {
			if result.Err != nil && !batch[i].(*tenure).end().releaseAtClose() {
				return
			}
		}
	}
}

// endAll ends every context before the first lock is released.
func endAll(owners []watchdog.Owner) {
	for _, o := range owners {
		o.(*tenure).end().finish(ErrClosed, false)
	}
}

// withdrawAll is releaseAll for locks that several masters grant.
func (c *Client) withdrawAll(owners []watchdog.Owner) {
	endAll(owners)
	for _, o := range owners {
		b := o.(*tenure).server.(*ballot)
		c.tasks.Go(func() { b.withdraw(context.Background()) })
	}
}
