package holdfast

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Client is one participant, like a Redisson client in Java. Locks of all kinds are made on a
// client. Use one client per process and Redis, and Close it at the end. All methods are safe for
// concurrent use.
//
// Operations of many goroutines at the same time travel together in pipelines. Hooks of go-redis
// see the pipelines. In a cluster each operation travels alone, because a pipeline over several
// servers ends with the slowest server.
//
// A hook or dialer of go-redis may panic. The operation that called it then fails: the client gives
// everything back, and lets the panic go on to the operation's caller. If there is no caller, the
// client logs the panic.
//
// A client has one goroutine of its own, the watchdog's, from the first lock on. While somebody
// waits, it also has one connection for messages per server, and a goroutine that looks at long
// waits: see [Options.LongWait]. A client that holds nothing and waits for nothing sends nothing.
type Client engine.Client

// New makes a client on rdb. rdb stays the caller's: Close does not close it. Nil options mean the
// defaults. New sends nothing.
//
// rdb is a *redis.Client (one server, or Sentinel) or a *redis.ClusterClient. If the options of a
// client have ClusterSlots, as redis.NewFailoverClusterClient sets it, New takes the servers for a
// setup without Redis Cluster. All commands of locks go to masters, wherever such a client sends
// its reads.
//
// New returns an error that wraps [ErrInvalid] for options that contradict each other and for any
// other type of client. It refuses a *redis.Ring, because a Ring moves names, and so their locks,
// to another server when one does not answer. It refuses a type that embeds a client, because the
// library cannot know where that type sends commands. To see or change commands, use hooks of
// go-redis.
func New(rdb redis.UniversalClient, opts *Options) (*Client, error) {
	c, err := engine.New(rdb, (*engine.Options)(opts))
	return (*Client)(c), err
}

// ID is the client's UUID, the first part of the names of its owners.
func (c *Client) ID() string { return (*engine.Client)(c).ID() }

// Ping reports whether Redis is reachable and whether this client may do what an rlock needs. It
// takes a lock with the scripts of an rlock, renews it, gives it back, and deletes its token. The lock has a
// name of its own, so nobody waits for it: the client's Prefix, "holdfast_ping:" and an owner of
// this client. Meanwhile Ping subscribes to the lock's channel, as a waiter does, and waits until
// the server has confirmed that. A Ping whose commands were all sent once leaves no key behind; what
// else it leaves ends within 10 s.
//
// The errors are those of a lock: [ErrUnavailable] if the server did not answer within
// [Options.RetryBudget] or until ctx ended, or cannot serve now, as a replica; [ErrClosed]; and
// otherwise the server's refusal with advice, as for a wrong password or a missing permission. For a
// health check give ctx a deadline of a second or two.
//
// Ping tries the commands that lock, renew and unlock an rlock, its three kinds of keys, publishing and
// subscribing. It does not try to re-enter or to read the state, nor what other kinds of
// lock and other options need; "holdfast doctor" does. A user of Redis who may lock only some names
// needs the rule for holdfast_ping in docs/security.md, unless the client's Prefix makes the name of
// Ping's lock one of them. In a cluster each call asks one master, mostly another one than the call before.
//
// A call sends three scripts, a DEL, a SUBSCRIBE and an UNSUBSCRIBE, and opens a connection for messages if the
// client has none. Of a lock on several masters Ping each client: it works while a majority of them
// returns nil.
func (c *Client) Ping(ctx context.Context) error { return (*engine.Client)(c).Ping(ctx) }

// Close releases the client's holds, wakes its waiters with [ErrClosed] and waits for its
// goroutines to end, including those that run the Logger or a hook of go-redis. The contexts of the
// holds end first, with [ErrClosed]. Close also waits for each Unlock that is under way, and for
// releases that are repeated in the background. Close tries a server that does not answer for a
// second, or for [Options.RetryBudget] if that is shorter, and for as long as go-redis takes for
// the last answer. If ctx has already ended, as after a signal to the process, Close takes no more
// than that second in all.
//
// Close the client before the go-redis client, because Close sends commands through it. Deferred
// calls run in reverse, so defer the Close of go-redis first.
//
// Close does not wait for requests that callers have just given up and that are still in the
// network. Such a request may arrive after Close has returned. The server refuses it if it comes
// later than go-redis's ReadTimeout and a second. If it arrives sooner, it locks the name for
// nobody until its lease ends, or for as long as HoldAtLeast says.
//
// Close returns an error if ctx ended before all was done. It also returns one if it could not
// release locks: those of holds, or of a Lock or Unlock without an answer. That error says why, and
// how many locks may be left in Redis until their leases end. It wraps [ErrUnavailable] if no
// server answered, and [ErrUncertain] if releases were sent. A second call waits for the first and
// returns the same error.
func (c *Client) Close(ctx context.Context) error { return (*engine.Client)(c).Close(ctx) }
