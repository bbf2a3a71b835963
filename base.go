package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// Locker is what every kind of lock can do.
type Locker interface {
	// Name is the name of the lock in Redis.
	Name() string
	// Lock waits until the lock is granted, ctx ends or the time of [Wait] is over.
	Lock(ctx context.Context, opts ...Option) (*Hold, error)
	// TryLock returns [ErrNotAcquired] at once if another owner holds the lock. It waits for nobody, so it may pass
	// those who wait; where the kind is fair it is refused if there are any.
	TryLock(ctx context.Context, opts ...Option) (*Hold, error)
}

// Base is the part of a lock that does not depend on its kind. Packages like rlock are built on it; users of locks have
// no need for it, and cannot make one, because a protocol is internal to this module.
type Base struct {
	client   *Client
	dog      *watchdog.Watchdog // that renews its holds
	quorum   *quorum            // the masters that grant it together; nil where it is the client's server
	wire     kind.Lock
	protocol kind.Protocol // the same, if one server grants the lock
	queuer   kind.Queuer   // the protocol, if its waiters have places at the server
	hander   kind.Hander   // the protocol, if its holders hand the lock to others of this client
	key      queue.Key
	defaults []Option
	err      error // why the lock cannot be used: bad name, nil client
}

// NewBase is for the kinds of this module. Errors in its arguments are returned by the first operation.
func NewBase(c *Client, p kind.Protocol, opts ...Option) *Base {
	b := newBase(c, p, opts)
	b.protocol = p
	b.queuer, _ = p.(kind.Queuer)
	b.hander, _ = p.(kind.Hander)
	return b
}

func newBase(c *Client, l kind.Lock, opts []Option) *Base {
	b := &Base{client: c, wire: l, key: queue.Key{Kind: l.Kind(), Name: l.Name()}, defaults: opts}
	switch err := keys.Check(l.Name()); {
	case c == nil:
		b.err = invalid("client is nil; make one with holdfast.New")
	case err != nil:
		b.err = both{ErrInvalid, err}
	default:
		b.dog = c.dog
	}
	return b
}

// Name is [Locker.Name].
func (b *Base) Name() string { return b.key.Name }

// Lock is [Locker.Lock].
func (b *Base) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return b.lock(&request{op: "lock", ctx: ctx}, opts)
}

// TryLock is [Locker.TryLock].
func (b *Base) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return b.lock(&request{op: "try", ctx: ctx, once: true}, opts)
}

// lock gets a hold for the owner that the context carries: another one in the owner's grant if it has one, else a grant.
func (b *Base) lock(r *request, opts []Option) (*Hold, error) {
	if err := b.prepare(r, opts); err != nil {
		return nil, b.fail(r.op, err)
	}
	defer r.cancel()
	own := ownerOf(r.ctx, b.client)
	h, err := (*Hold)(nil), errAgain
	for errors.Is(err, errAgain) {
		g := own.enter(b, r)
		if p := g.queueUp(r); p != nil {
			p.Wait(r.wait) // here, and not further down: see there
		}
		h, err = g.acquire(r)
	}
	if err != nil {
		return nil, b.fail(r.op, err)
	}
	return h, nil
}

// request is one call of Lock or TryLock.
type request struct {
	op     string // for errors
	want   config
	ctx    context.Context    // the caller's, from which the hold derives
	wait   context.Context    // bounds the waiting
	cancel context.CancelFunc // frees what wait takes
	once   bool               // the server is asked once
	place  *queue.Place       // in the local queue, if it had to wait there
}

// prepare applies the options to a request that has the rest.
func (b *Base) prepare(r *request, opts []Option) error {
	if err := b.configure(&r.want, opts); err != nil {
		return err
	}
	if r.ctx == nil {
		return invalid("ctx is nil; use context.Background()")
	}
	r.wait, r.cancel = r.ctx, func() {}
	switch {
	case r.want.waitSet && r.want.wait == 0:
		r.once = true
	case r.want.waitSet && !r.once:
		r.wait, r.cancel = context.WithTimeoutCause(r.ctx, r.want.wait, errWaited)
	}
	return nil
}

var errWaited = errors.New("waited as long as Wait allows")

// configure adds up the client's, the lock's and the call's options, the later ones winning.
func (b *Base) configure(cfg *config, opts []Option) error {
	if b.err != nil {
		return b.err
	}
	*cfg = config{lease: b.client.opts.Lease, renew: true, handOff: b.hander != nil || b.quorum != nil}
	for _, opt := range b.defaults {
		opt(cfg)
	}
	for _, opt := range opts {
		opt(cfg)
	}
	cfg.lease = time.Duration(kind.Millis(cfg.lease)) * time.Millisecond
	if cfg.err == nil && b.quorum != nil && cfg.patience() >= watchdog.Trust(cfg.lease) {
		return invalid("MasterTimeout is %v, and a lease of %v is trusted for %v; use a shorter timeout or a longer lease",
			cfg.patience(), cfg.lease, watchdog.Trust(cfg.lease))
	}
	cfg.refuse(cfg.replicas.check(b, cfg.lease))
	return cfg.err
}

// query runs a call that changes nothing, or that is harmless when repeated.
func (b *Base) query(ctx context.Context, op string, build func(publish string) lua.Call) (outcome, error) {
	if b.err != nil {
		return outcome{}, b.fail(op, b.err)
	}
	if b.client.ctx.Err() != nil {
		return outcome{}, b.fail(op, ErrClosed)
	}
	call := build(b.client.publish)
	o, ok := b.client.call(ctx, b.client, func(bool) lua.Call { return call }, func(outcome) {})
	switch {
	case !ok:
		return o, b.fail(op, both{ErrUncertain, context.Cause(ctx)})
	case o.err != nil:
		return o, b.fail(op, b.uncertain(o))
	}
	return o, nil
}

// renewNow renews this client's holds of the name now, so that one that was forced out is told at once.
func (b *Base) renewNow() {
	b.dog.Poke(func(o watchdog.Owner) bool { return o.(*tenure).base.key == b.key })
}

func (b *Base) fail(op string, err error) error {
	return &Error{Op: op, Kind: b.key.Kind, Name: b.key.Name, Err: err}
}

// uncertain is the error of an operation that failed: whether it may have happened is part of it.
func (b *Base) uncertain(o outcome) error {
	if o.stray {
		return both{ErrUncertain, o.err}
	}
	return explain(b, o.err)
}

// explain adds to an error of Redis what its text does not say: which key, and what to do.
func explain(b *Base, err error) error {
	switch {
	case lua.IsError(err, "WRONGTYPE"):
		k, queue := keys.For(b.key.Name), ""
		if b.queuer != nil {
			queue = fmt.Sprintf(", or %s or %s something that is no queue", k.Queue, k.Deadlines)
		}
		return both{fmt.Errorf("the key %s holds something that is not a lock, or %s something that is not a token%s; choose "+
			"another name", k.Name, k.Token, queue), err}
	case lua.IsDenied(err):
		return both{errors.New("this user lacks a permission; docs/security.md has the rule that it needs, and ACL LOG " +
			"at the server says what was refused"), err}
	}
	return err
}

// gaveUp is the error of an acquisition that failed or was left. Nothing stays uncertain for its caller: what may have
// been granted is undone.
func (b *Base) gaveUp(wait context.Context, o outcome) error {
	if cause := context.Cause(wait); cause != nil {
		return both{ErrNotAcquired, because(cause, o.err)}
	}
	return b.uncertain(o)
}
