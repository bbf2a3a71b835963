package holdfast

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/engine"
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
type Client engine.Client

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
	c, err := engine.New(rdb, (*engine.Options)(opts))
	return (*Client)(c), err
}

// ID is the client's UUID, the first part of every owner of its.
func (c *Client) ID() string { return (*engine.Client)(c).ID() }

// Close releases the client's holds, wakes its waiters with [ErrClosed] and joins its goroutines,
// also those in which the Logger or a hook of go-redis runs. It waits for each Unlock that is under
// way, so all is released when it returns. The contexts of the holds end first,
// with [ErrClosed]. A server that does not answer is tried for a second, or for
// [Options.RetryBudget] if that is shorter, and for as long as go-redis takes for the last answer.
// If ctx has ended before, as it has where a signal ends the process, that second is what Close has
// in all.
//
// Close the client before the go-redis client, which Close needs. Deferred calls run in reverse, so
// defer the Close of go-redis first.
//
// Close does not wait for requests that callers gave up a moment ago and that the network still
// keeps: for go-redis's ReadTimeout and a second. Such a request may arrive after Close has
// returned, and before it is so late that it refuses itself. It then locks the name for nobody
// until its lease ends, or for as long as HoldAtLeast says.
//
// Close returns an error if ctx ended before all was done. It also returns one if holds could not
// be released. That error says why, and how many locks may be left in Redis until their leases end
// them. It wraps [ErrUnavailable] where no server answered, and [ErrUncertain] where releases were
// sent. A second call waits for the first and returns the same.
func (c *Client) Close(ctx context.Context) error { return (*engine.Client)(c).Close(ctx) }
