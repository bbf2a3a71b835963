package holdfast

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/internal/logqueue"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/task"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/pubsub"
)

// Client is one participant: what a Redisson client is to Java. Locks of all kinds are made on it.
// Use one per process and Redis, and Close it at the end. All methods are safe for concurrent use.
//
// Operations that many goroutines ask for at the same time travel together in pipelines, and hooks
// of go-redis see those. A cluster gets each operation by itself, because a pipeline over several
// servers ends with the slowest of them.
//
// A hook or dialer of go-redis may panic. The operation it was called for has then failed, and the
// panic goes on to that operation's caller when all has been given back. Where there is no caller,
// the panic is logged.
//
// A client has one goroutine (the watchdog's, from the first lock on), and while somebody waits one
// connection per server that it listens on. While nothing is held or waited for it sends nothing.
type Client struct {
	rdb     redis.UniversalClient
	cluster *redis.ClusterClient // rdb if it is one, else nil
	single  lua.Processor        // sends single operations: rdb, or a combiner on it
	publish string               // command that announces a release
	opts    Options
	id      string
	owners  atomic.Uint64 // number of the last owner
	way     way
	handed  atomic.Int64 // how many tokens were needed when a lock was handed on the last time

	dogs   watchdogs
	hub    *pubsub.Hub
	queue  queue.Queue
	lines  lines
	losses losses
	tasks  task.Group // operations that outlive their caller
	clock  clock      // of the server

	undoMu  sync.Mutex
	undoers map[undoing]*undoer // guarded by undoMu

	attachments attachments

	ctx       context.Context // ends with ErrClosed when Close begins
	cancel    context.CancelCauseFunc
	closeOnce sync.Once
	closeErr  error
	left      leftovers
}

// New makes a client on rdb, which stays the caller's: Close does not close it. nil options stand
// for the defaults. Nothing is sent.
//
// rdb is a *redis.Client (one server, or Sentinel) or a *redis.ClusterClient. A client with
// ClusterSlots in its options, as redis.NewFailoverClusterClient makes it, is taken for servers
// that are no Redis Cluster. All that concerns locks goes to masters, wherever such a client sends
// its reads.
//
// New returns an error that wraps [ErrInvalid] for options that contradict each other and for any
// other client. A *redis.Ring moves names to another server when one does not answer, and with them
// every lock. For a type that embeds a client, it cannot be known where it sends. Hooks of go-redis
// see and change commands without such a type.
func New(rdb redis.UniversalClient, opts *Options) (*Client, error) {
	if err := checkRedis(rdb); err != nil {
		return nil, err
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, both{ErrInvalid, err}
	}
	c := &Client{rdb: rdb, single: rdb, publish: "PUBLISH", opts: o, id: id.String(), clock: newClock(rdb)}
	switch r := rdb.(type) {
	case *redis.ClusterClient:
		c.cluster = r
		if r.Options().ClusterSlots == nil { // as pubsub has it
			c.publish = "SPUBLISH"
		}
	case *redis.Client:
		c.single = combine.New(r, r.Options().PoolSize)
	}
	c.lines.client, c.losses.client = c, c
	if o.Logger != nil {
		c.opts.Logger = logqueue.New(o.Logger, c.tasks.Go)
	} else {
		c.opts.Logger = slog.New(slog.DiscardHandler)
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.hub = pubsub.New(rdb, pubsub.Options{Linger: o.Linger})
	return c, nil
}

// checkRedis also sees a nil pointer of a client's type, the usual result of an ignored error.
func checkRedis(rdb redis.UniversalClient) error {
	switch r := rdb.(type) {
	case *redis.Client:
		if r != nil {
			return nil
		}
	case *redis.ClusterClient:
		if r != nil {
			return nil
		}
	case *redis.Ring:
		return invalid("rdb is a *redis.Ring, which grants a lock twice when a server does not answer; use a " +
			"single server, Sentinel or a Cluster")
	case nil:
	default:
		return invalid("rdb is a %T, of which it is not known where it sends; pass the *redis.Client or *redis.ClusterClient "+
			"in it, and use AddHook of that to see or change commands", rdb)
	}
	return invalid("rdb is nil; pass a go-redis client, for example redis.NewClient(&redis.Options{})")
}

// ID is the client's UUID, the first part of every owner of its.
func (c *Client) ID() string {
	if c == nil {
		return ""
	}
	return c.id
}

// check refuses a client that New did not make.
func (c *Client) check() error {
	switch {
	case c == nil:
		return invalid("client is nil; make one with holdfast.New")
	case c.rdb == nil:
		return invalid("client is a zero Client; make one with holdfast.New")
	}
	return nil
}

// newOwnerID numbers an owner. The h tells our owners from Redisson's thread numbers in a queue that both share.
func (c *Client) newOwnerID() string {
	var buf [64]byte
	id := append(buf[:0], c.id...)
	id = append(id, ":h"...)
	return string(strconv.AppendUint(id, c.owners.Add(1), 10))
}
