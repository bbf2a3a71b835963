package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/task"
	"github.com/holdfast-go/holdfast/internal/waitwatch"
	"github.com/holdfast-go/holdfast/pubsub"
	"github.com/holdfast-go/holdfast/watchdog"
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
	rivals   rivals
	losses   lossQueue
	watch    *waitwatch.Watch // of long waits
	label    *waitwatch.Label // nil: the client has none
	tasks    task.Group       // operations that outlive their caller

	attachments attachments
	keeps       atomic.Bool            // a lock was taken with [Keep]
	pingDenied  atomic.Pointer[string] // the owner of a Ping that lacked a permission, for the next one

	ctx        context.Context // ends with ErrClosed when Close begins
	cancel     context.CancelCauseFunc
	closeOnce  sync.Once
	closed     chan struct{} // closed when Close has returned
	closeErr   error
	unreleased unreleased
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
	c := &Client{rdb: rdb, opts: o, id: id.String(), server: remote.NewServer(rdb, o.ClassicPubSub, o.RetryBudget),
		closed: make(chan struct{})}
	c.losses.spawn = c.tasks.Go
	c.opts.Logger = notify.NewLogger(o.Logger, c.tasks.Go)
	c.observer = notify.New(o.Observer, c.opts.Logger, &c.tasks)
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.session = &remote.Session{Life: c.ctx, Tasks: &c.tasks, Log: c.opts.Logger, Retry: o.RetryBudget,
		Publish: c.server.Publish, NoteUnreleased: c.NoteUnreleased}
	watch := waitwatch.Config{
		Client: c.id, Label: o.Label, Default: opts == nil || opts.Label == "", LongWait: o.LongWait, Redis: rdb, Log: c.opts.Logger, Observer: c.observer,
		Tasks: &c.tasks, Life: c.ctx, Budget: c.session.Budget, Within: c.server.Within, NotePanic: c.session.NotePanic, Held: c.dogs.held,
	}
	c.watch = waitwatch.New(watch)
	c.label = waitwatch.NewLabel(c.watch, o.Lease, c.isIdle)
	listen := pubsub.Options{Linger: o.Linger, Classic: o.ClassicPubSub}
	if to := c.observer; to != nil {
		c.session.OnScript, c.dogs.judged, listen.Changed = to.Scripts(), to.Renewals(describe), to.Connections()
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

// NoteUnreleased notes, and logs, that Close leaves locks to their leases.
func (c *Client) NoteUnreleased(locks int, why error) {
	if locks == 0 {
		return
	}
	c.unreleased.add(locks, why)
	c.opts.Logger.Warn("locks not released at close; their leases will end them", "locks", locks, "error", why)
}

// isIdle reports whether the client neither holds nor waits.
func (c *Client) isIdle() bool { return c.watch.IsEmpty() && !c.dogs.busy() }

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

// attachments are what backends keep with a client, one of each type.
type attachments struct {
	of sync.Map   // by attachment: a pointer to what it is of
	mu sync.Mutex // is held while one is made; no other of this package's is taken then
}

// attachment is the key of one.
type attachment[T any] struct{}

// way is how long a round trip to the server takes. The zero value is ready.
type way struct{ nanos atomic.Int64 }

// took notes the time of one round trip. Most round trips that take longer than usual do so because
// a process had to wait for a processor.
func (w *way) took(d time.Duration) {
	old, now := w.nanos.Load(), int64(d)
	if old > 0 && now > old {
		now = old + (now-old)/8
	}
	w.nanos.Store(now) // of two at once one may be forgotten
}

func (w *way) usual() time.Duration { return time.Duration(w.nanos.Load()) }

// start is long ago, for times that are only compared. To read the wall clock, too, would take twice as
// long, and an observer needs three times for each hold. In a bubble of testing/synctest they are below zero.
var start = time.Now()

func sinceStart() time.Duration { return time.Since(start) }
