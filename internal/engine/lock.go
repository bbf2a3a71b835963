package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// Lock is the part of a lock that does not depend on its kind. Packages like rlock are built on it.
//
// Its errors are the reasons only. The kinds say which operation has failed.
type Lock struct {
	Client   *Client
	Dog      *watchdog.Watchdog // that renews its holds
	backend  Backend
	traits   Traits // of the backend
	waiter   Waiter // the backend, if it is one
	wire     kind.Lock
	protocol kind.Protocol // the same, if one server grants the lock
	Key      queue.Key
	defaults []Option
	Err      error // why the lock cannot be used: bad name, nil client
}

// NewLock is for the kinds of this module. Errors in its arguments are returned by the first
// operation.
func NewLock(c *Client, p kind.Protocol, opts ...Option) *Lock {
	b := NewBare(c, p, opts)
	b.protocol = p
	if b.Err == nil {
		b.Use(newOneServer(b, p))
	}
	return b
}

// NewBare is a lock without a backend, which [Lock.Use] gives it.
func NewBare(c *Client, l kind.Lock, opts []Option) *Lock {
	b := &Lock{Client: c, wire: l, Key: queue.Key{Kind: l.Kind(), Name: l.Name()}, defaults: opts}
	if err := c.Check(); err != nil {
		b.Err = err
		return b
	}
	if err := keys.Check(l.Name()); err != nil {
		b.Err = errs.Both(errs.ErrInvalid, err)
	}
	return b
}

// Use makes it the lock of a backend.
func (b *Lock) Use(be Backend) {
	b.backend, b.traits, b.Dog = be, be.Traits(), b.Client.dogs.get(be.Renewer())
	b.waiter, _ = be.(Waiter)
}

// Backend is where its entries live. It may be the part of another one.
func (b *Lock) Backend() Backend { return b.backend }

// Name is the name of the lock in Redis.
func (b *Lock) Name() string { return b.Key.Name }

// Lock waits for the lock, for as long as the context and [Wait] allow.
func (b *Lock) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return b.lock(&request{ctx: ctx}, opts)
}

// TryLock asks once.
func (b *Lock) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return b.lock(&request{ctx: ctx, once: true}, opts)
}

// lock gets a hold for the owner that the context carries: another one in the owner's grant if it
// has one, else a grant.
func (b *Lock) lock(r *request, opts []Option) (*Hold, error) {
	if err := b.prepare(r, opts); err != nil {
		return nil, Raise(err)
	}
	defer r.cancel()
	late := r.ctx.Err() != nil
	own := ownerOf(r.ctx, b)
	h, err := (*Hold)(nil), errAgain
	for errors.Is(err, errAgain) {
		g, failed := own.enter(b, r)
		if failed != nil {
			return nil, Raise(failed)
		}
		var at Place
		if p := g.queueUp(r); p != nil {
			p.Wait(r.wait) // here, and not further down: see there
		} else if b.waiter != nil && g.asked == r && !r.once && b.waiter.Crowded() && g.prepare() == nil {
			at = b.waiter.Join((*Acquisition)(g))
			at.Stand() // as well
		}
		h, err = g.acquire(r, at)
	}
	if late && errors.Is(err, errs.ErrUnavailable) && !errors.Is(err, errs.ErrNotAcquired) {
		err = errs.Unasked(b.Over(r.ctx))
	}
	if err != nil {
		return nil, Raise(Under(r.ctx, err))
	}
	return h, nil
}

// request is one call of Lock or TryLock.
type request struct {
	want   Settings
	ctx    context.Context    // the caller's, from which the hold derives
	wait   context.Context    // bounds the waiting
	cancel context.CancelFunc // frees what wait takes
	once   bool               // the server is asked once
	place  *queue.Ticket      // in the local queue, if it had to wait there
}

// prepare applies the options to a request that has the rest.
func (b *Lock) prepare(r *request, opts []Option) error {
	if err := b.Configure(&r.want, opts); err != nil {
		return err
	}
	if err := errs.CheckContext(r.ctx); err != nil {
		return err
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

// Configure adds up the client's, the lock's and the call's options, the later ones winning.
func (b *Lock) Configure(cfg *Settings, opts []Option) error {
	if b.Err != nil {
		return b.Err
	}
	*cfg = Settings{Lease: b.Client.opts.Lease, renew: true, handOff: b.traits.HandsOff}
	for _, list := range [][]Option{b.defaults, opts} {
		for i, opt := range list {
			if opt == nil {
				cfg.Refuse(errs.Invalid("option %d is nil; leave it out", i+1))
				continue
			}
			opt(cfg)
		}
	}
	cfg.Lease = time.Duration(kind.Millis(cfg.Lease)) * time.Millisecond
	cfg.handOff = cfg.handOff && cfg.atLeast == 0
	if cfg.err != nil {
		return cfg.err
	}
	return b.backend.Check(cfg)
}

// What a query may leave at the server when it has no answer.
const (
	Reads   = false // nothing, so there is no outcome to be unknown
	Changes = true  // what it does, which is harmless when repeated
)

// query runs a call that changes nothing, or that is harmless when repeated.
func (b *Lock) query(ctx context.Context, changes bool, build func(publish string) lua.Call) (remote.Outcome, error) {
	if err := b.MayAsk(ctx); err != nil {
		return remote.Outcome{}, err
	}
	call := build(b.Client.server.Publish)
	o, ok := b.Client.session.Call(ctx, func(ctx context.Context, failed *atomic.Pointer[error]) remote.Outcome {
		return b.Client.session.Repeat(ctx, b.Client.server, func(bool) lua.Call { return call }, failed)
	}, func(remote.Outcome) {})
	switch {
	case !ok && changes:
		return o, Raise(Under(ctx, outage(errs.Both(errs.ErrUncertain, WithCause(context.Cause(ctx), o.Err)))))
	case !ok:
		return o, Raise(Under(ctx, outage(WithCause(context.Cause(ctx), o.Err))))
	case o.Err != nil:
		o.Stray = o.Stray && changes
		if cause := context.Cause(ctx); cause != nil && remote.IsOutage(o.Err) {
			o.Err = WithCause(cause, o.Err) // it ended between two attempts
		}
		return o, Raise(Under(ctx, b.Uncertain(o)))
	}
	return o, nil
}

// MayAsk is why a query is not to be sent.
func (b *Lock) MayAsk(ctx context.Context) error {
	switch {
	case b.Err != nil:
		return Raise(b.Err)
	case ctx == nil:
		return Raise(errs.CheckContext(ctx))
	case b.Client.ctx.Err() != nil:
		return Raise(errs.ErrClosed)
	case ctx.Err() != nil:
		return Raise(Under(ctx, errs.Unasked(context.Cause(ctx))))
	}
	return nil
}

// RenewNow renews this client's holds of the name now, so that one that was forced out is told at
// once.
func (b *Lock) RenewNow() {
	b.Dog.RenewNow(func(o watchdog.Owner) bool { return o.(*Tenure).base.Key == b.Key })
}

// Raise returns the error of an operation, at its end. If what failed is a hook of go-redis that
// panicked, that goes on to the caller: all that the operation had by then has been given back, or
// will be.
func Raise(err error) error {
	if err == nil {
		return nil // without looking, which takes memory
	}
	if p := panics.In(err); p != nil {
		panic(p.Value)
	}
	return err
}

// Uncertain is the error of an operation that failed: whether it may have happened is part of it,
// and whether there was an answer.
func (b *Lock) Uncertain(o remote.Outcome) error {
	err := b.backend.Explain(o.Err)
	if o.Stray && !o.Unsent {
		err = errs.Both(errs.ErrUncertain, err)
	}
	if remote.IsOutage(o.Err) {
		err = outage(err)
	}
	return err
}
