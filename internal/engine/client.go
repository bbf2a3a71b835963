package engine

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/task"
	"github.com/holdfast-go/holdfast/internal/waitwatch"
	"github.com/holdfast-go/holdfast/pubsub"
)

// Client is what users know as holdfast.Client. It has no exported fields: users of that type would
// see them.
type Client struct {
	server  *remote.Server
	session *remote.Session
	rdb     redis.UniversalClient
	opts    Options
	id      string
	owners  atomic.Uint64 // number of the last owner
	way     way
	handed  atomic.Int64 // how many tokens were needed when a lock was handed on the last time

	dogs watchdogs
	hub  *pubsub.Hub
	// nil: nobody observes the client
	observer *notify.Notifier
	queue    queue.Queue
	guests   guests
	losses   losses
	watch    *waitwatch.Watch // of long waits
	label    *waitwatch.Label // nil: the client has none
	tasks    task.Group       // operations that outlive their caller

	attachments attachments

	ctx       context.Context // ends with ErrClosed when Close begins
	cancel    context.CancelCauseFunc
	closeOnce sync.Once
	closed    chan struct{} // closed when Close has returned
	closeErr  error
	left      leftovers
}

// New makes a client; nil options stand for the defaults. It sends nothing.
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
		return nil, errs.Both(errs.ErrInvalid, err)
	}
	c := &Client{rdb: rdb, opts: o, id: id.String(), server: remote.NewServer(rdb, o.ClassicPubSub),
		closed: make(chan struct{})}
	c.losses.spawn = c.tasks.Go
	if o.Logger != nil {
		c.opts.Logger = notify.NewLogger(o.Logger, c.tasks.Go)
	} else {
		c.opts.Logger = slog.New(slog.DiscardHandler)
	}
	c.observer = notify.New(o.Observer, c.opts.Logger, &c.tasks)
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.session = &remote.Session{Life: c.ctx, Tasks: &c.tasks, Log: c.opts.Logger, Retry: o.RetryBudget,
		Publish: c.server.Publish, Leave: c.Leave}
	watch := waitwatch.Config{
		Client: c.id, Label: o.Label, LongWait: o.LongWait, Redis: rdb, Log: c.opts.Logger, Observer: c.observer,
		Tasks: &c.tasks, Life: c.ctx, Budget: c.session.Budget, Held: c.dogs.held,
	}
	c.watch, c.label = waitwatch.New(watch), waitwatch.NewLabel(watch, o.Lease, c.isIdle)
	listen := pubsub.Options{Linger: o.Linger, Classic: o.ClassicPubSub}
	if to := c.observer; to != nil {
		c.session.Heard, c.dogs.judged, listen.Changed = to.Scripts(), to.Renewals(describe), to.Connections()
	}
	c.hub = pubsub.New(rdb, listen)
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
		return errs.Invalid("rdb is a *redis.Ring, which grants a lock twice when a server does not answer; use a " +
			"single server, Sentinel or a Cluster")
	case nil:
	default:
		return errs.Invalid("rdb is a %T, of which it is not known where it sends; pass the *redis.Client or *redis.ClusterClient "+
			"in it, and use AddHook of that to see or change commands", rdb)
	}
	return errs.Invalid("rdb is nil; pass a go-redis client, for example redis.NewClient(&redis.Options{})")
}

// ID is the client's UUID, the first part of every owner of its.
func (c *Client) ID() string {
	if c == nil {
		return ""
	}
	return c.id
}

// InRedis is what a name of the user's is in Redis: with the prefix in front. An empty name stays
// empty, so that it is refused.
func (c *Client) InRedis(name string) string {
	if c == nil || name == "" {
		return name
	}
	return c.opts.Prefix + name
}

// Check refuses a client that New did not make.
func (c *Client) Check() error {
	switch {
	case c == nil:
		return errs.Invalid("client is nil; make one with holdfast.New")
	case c.rdb == nil:
		return errs.Invalid("client is a zero Client; make one with holdfast.New")
	}
	return nil
}

// NewOwnerID numbers an owner. The letter tells our owners from Redisson's thread numbers in a queue
// that both share. It is an h, or one of two that say how the client is called if its lock is in the
// way of others: k by PUBLISH, s by SPUBLISH.
func (c *Client) NewOwnerID(called bool) string {
	letter := byte('h')
	switch {
	case called && c.server.Publish == "SPUBLISH":
		letter = 's'
	case called:
		letter = 'k'
	}
	// Without strconv, whose frames enlarge the stack of every waiter: it would not fit into 2 KiB.
	var buf [64]byte
	i := len(buf)
	for n := c.owners.Add(1); ; n /= 10 {
		i--
		buf[i] = byte('0' + n%10)
		if n < 10 {
			break
		}
	}
	i -= 2 + len(c.id)
	copy(buf[i:], c.id)
	buf[i+len(c.id)], buf[i+len(c.id)+1] = ':', letter
	return string(buf[i:])
}

// Leave notes, and logs, that locks are left.
func (c *Client) Leave(locks int, why error) {
	if locks == 0 {
		return
	}
	c.left.add(locks, why)
	c.opts.Logger.Warn("locks not released at close; their leases will end them", "locks", locks, "error", why)
}

// isIdle reports whether the client neither holds nor waits.
func (c *Client) isIdle() bool { return c.watch.Idle() && !c.dogs.busy() }

// labelOf is the label of an owner's client, as far as that is known.
func (c *Client) labelOf(owner string) string {
	switch client := remote.ClientIn(owner); client {
	case "":
		return ""
	case c.id:
		return c.opts.Label
	default:
		return c.watch.LabelOf(client)
	}
}
