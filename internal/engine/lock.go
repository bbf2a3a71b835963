package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/waitwatch"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// Lock is the part of a lock that does not depend on its kind. Packages like rlock are built on it.
//
// Its errors are the reasons only. The kinds say which operation has failed.
type Lock struct {
	Asker
	Dog      *watchdog.Watchdog // that renews its holds
	backend  Backend
	traits   Traits // of the backend
	wire     kind.Lock
	protocol kind.Protocol // the same, if one server grants the lock
	Key      queue.Key
	defaults []Option
	usual    usual              // settings of a call
	beside   []*Client          // whose servers grant the lock with the client's own
	labels   []*waitwatch.Label // the client's, at those servers
}

// usual are the settings of each call that gives no options, and why such a call fails; nil: it does not. They are
// made by the first such call.
type usual struct {
	once sync.Once
	Settings
	bad error
}

// NewBare is a lock without a backend, which [Lock.Use] gives it.
func NewBare(c *Client, l kind.Lock, opts []Option) *Lock {
	b := &Lock{Asker: NewAsker(c, l.Name(), nil), wire: l, Key: queue.Key{Kind: l.Kind(), Name: l.Name()}, defaults: opts}
	if s, ok := l.(kind.Sided); ok {
		b.Key.Side = s.Side()
	}
	return b
}

// Use makes it the lock of a backend.
func (b *Lock) Use(be Backend) {
	b.backend, b.traits, b.Dog = be, be.Traits(), b.Client.dogs.get(be.Renewer())
	b.explain = be.Explain
}

// Refine changes what the backend says of its locks, for a kind of its own: their traits, and what an error of Redis
// means; nil: what it means for the backend.
func (b *Lock) Refine(traits func(*Traits), explain func(error) error) {
	traits(&b.traits)
	if explain != nil {
		b.explain = explain
	}
}

// Beside says which other clients' servers grant the lock: the client's label is shown there, too.
func (b *Lock) Beside(clients []*Client) {
	b.beside = clients
	for _, c := range clients {
		b.labels = append(b.labels, b.Client.label.At(c.watch))
	}
}

// show publishes the client's label at the servers that grant the lock, which stays taken for some time, or 0.
func (b *Lock) show(stays time.Duration) {
	b.Client.label.Publish(stays)
	for _, l := range b.labels {
		l.Publish(stays)
	}
}

// Backend is where its entries live. It may be the part of another one.
func (b *Lock) Backend() Backend { return b.backend }

// Name is the name of the lock in Redis.
func (b *Lock) Name() string { return b.Key.Name }

// settings are those of a call with some options. They must not be changed.
func (b *Lock) settings(opts []Option) (*Settings, error) {
	u := &b.usual
	if len(opts) > 0 {
		cfg := new(Settings)
		return cfg, b.Configure(cfg, opts)
	}
	u.once.Do(func() { u.bad = b.Configure(&u.Settings, nil) })
	return &u.Settings, u.bad
}

// Configure adds up the client's, the lock's and the call's options, the later ones winning.
func (b *Lock) Configure(cfg *Settings, opts []Option) error {
	if b.Err != nil {
		return b.Err
	}
	if err := b.CheckLength(b.Key.Name); err != nil {
		return err
	}
	*cfg = Settings{Lease: b.Client.opts.Lease, renew: true, handOff: b.traits.HandsOff && !b.traits.Shared, Count: 1}
	for _, list := range [][]Option{b.defaults, opts} {
		_ = cfg.Add(list) // the error stays in it
	}
	if cfg.identify != nil {
		cfg.identify(b)
		return errIdentified
	}
	cfg.Lease = time.Duration(kind.Millis(cfg.Lease)) * time.Millisecond
	// Who polls is not among those who listen, so nobody would ever hand the lock on to it.
	cfg.handOff = cfg.handOff && cfg.atLeast == 0 && !cfg.strings
	if err := b.unfit(cfg); err != nil {
		return err
	}
	if cfg.err != nil {
		return cfg.err
	}
	if !cfg.handOff || !cfg.renew {
		cfg.keep = 0
	}
	return b.backend.Check(cfg)
}

// unfit refuses options that no value makes fit for such a lock.
func (b *Lock) unfit(c *Settings) error {
	t, kind := &b.traits, b.Key.Kind
	const masters = givenMasterTimeout | givenTrustRestarts
	const replicas = givenReplicas | givenOnDisk
	switch g := c.given; {
	case g&givenStrings != 0 && !t.Strings:
		return errs.Invalid("RespectStrings is given; only an rlock waits for strings, not a lock of package %s; leave the option out", kind)
	case c.keep != 0 && !t.Recalls:
		return errs.Invalid("Keep is %v; only an rlock can be kept, not a lock of package %s; leave the option out", c.keep, kind)
	case g&givenAtLeast != 0 && t.NoAtLeast != "":
		return errs.Invalid("HoldAtLeast is %v; %s", c.atLeast, t.NoAtLeast)
	case g&masters != 0 && !t.Several:
		return errs.Invalid("%v is for package redlock, which asks several masters, not for %s; leave the option out", g&masters, kind)
	case g&replicas != 0 && t.Several:
		return errs.Invalid("%v is for a lock that one server grants, not a lock of package %s; leave the option out", g&replicas, kind)
	}
	return nil
}

// Pause returns why nobody should go on, nil when the time is over.
func (b *Lock) Pause(wait context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wait.Done():
	case <-b.Client.ctx.Done():
	}
	return b.Over(wait)
}

// PlaceFor is for how long a place in a queue at the server is of use to one who waits so long: not in the last round
// trip, half of which the question takes, and half of which the word of a grant would take.
func (b *Lock) PlaceFor(wait context.Context) time.Duration {
	end, ok := wait.Deadline()
	if !ok {
		return math.MaxInt64
	}
	return max(time.Until(end)-b.Client.way.usual(), time.Millisecond)
}

// recheck is when a lease of which so much is left will have ended, a millisecond added because a
// key lives through its last one. A key without a time to live (-1) is nobody's lease; it is looked
// at once in a lease of our own.
func (b *Lock) recheck(left time.Duration) time.Duration {
	if left < 0 {
		return b.Client.opts.Lease
	}
	return left + time.Millisecond
}

// RenewNow renews this client's renewed holds of the name now, so that a hold that was forced out
// ends at once.
func (b *Lock) RenewNow() {
	b.Dog.RenewNow(func(o watchdog.Owner) bool {
		key, _ := o.(leased).of()
		return key == b.Key
	})
}

// Asker asks a client's server about what has one name there. Locks are built on it, and kinds that are
// no locks.
type Asker struct {
	Client  *Client
	Err     error // why it cannot be used: bad name, nil client
	explain func(error) error
}

// NewAsker is for the kinds of this module. Errors in its arguments are returned by the first
// operation. explain adds to an error of Redis what the kind knows of it, as [Backend.Explain] does.
func NewAsker(c *Client, name string, explain func(error) error) Asker {
	a := Asker{Client: c, explain: explain}
	if err := c.Check(); err != nil {
		a.Err = err
	} else if err := keys.Check(name); err != nil {
		a.Err = errs.Both(errs.ErrInvalid, err)
	}
	return a
}

// CheckLength refuses a name that is too long to begin something under it.
func (a *Asker) CheckLength(name string) error {
	if len(name) <= keys.MaxName {
		return nil
	}
	return a.tooLong(name)
}

func (a *Asker) tooLong(name string) error {
	prefix := ""
	if a.Client != nil && a.Client.opts.Prefix != "" {
		prefix = fmt.Sprintf(", %d of them Options.Prefix", len(a.Client.opts.Prefix))
	}
	return errs.Invalid("name has %d bytes%s; use at most %d, such as a hash of the long name", len(name), prefix, keys.MaxName)
}

// Uncertain is the error of an operation that failed: whether it may have happened is part of it,
// and whether there was an answer.
func (a *Asker) Uncertain(o remote.Outcome) error {
	err := a.explain(o.Err)
	if o.MayArriveLate && !o.Unsent {
		err = errs.Both(errs.ErrUncertain, err)
	}
	if remote.IsOutage(o.Err) {
		err = errs.Outage(err)
	}
	return err
}

// Over is why nobody should wait any more: the caller's context or the client's end. A context that
// is done beats a lock that is free.
func (a *Asker) Over(wait context.Context) error {
	if a.Client.ctx.Err() != nil {
		return errs.ErrClosed
	}
	return context.Cause(wait)
}

// Whether a query may change something at the server when no answer comes.
const (
	Reads   = false // nothing, so there is no outcome to be unknown
	Changes = true  // what it does, which is harmless when repeated
)

// Query runs a call that changes nothing, or that is harmless when repeated. build makes the call for
// each attempt.
func (a *Asker) Query(ctx context.Context, changes bool, build func(publish string) lua.Call) (remote.Outcome, error) {
	op := func(bool) lua.Call { return build(a.Client.server.Publish) }
	return a.query(ctx, changes, func() string { return op(false).Key() }, func(ctx context.Context, failed *atomic.Pointer[error]) remote.Outcome {
		return a.Client.session.Repeat(ctx, a.Client.server, op, remote.Retry{}, failed)
	})
}

// query is Query for any action. key is the first key that it names.
func (a *Asker) query(ctx context.Context, changes bool, key func() string, action remote.Action) (remote.Outcome, error) {
	if err := a.MayAsk(ctx); err != nil {
		return remote.Outcome{}, err
	}
	begun := time.Now()
	o, ok := a.Client.session.Call(ctx, action, func(remote.Outcome) {})
	if !ok && o.Err == nil {
		o.Err = a.Client.server.NoAnswerTo(ctx, begun, key())
	}
	switch {
	case !ok && changes && !a.Client.server.NeverReached():
		return o, panics.Repanic(Under(ctx, errs.Outage(errs.Both(errs.ErrUncertain, errs.WithCause(context.Cause(ctx), o.Err)))))
	case !ok:
		return o, panics.Repanic(Under(ctx, errs.Outage(errs.WithCause(context.Cause(ctx), o.Err))))
	case o.Err != nil:
		o.MayArriveLate = o.MayArriveLate && changes
		if cause := context.Cause(ctx); cause != nil && remote.IsOutage(o.Err) {
			o.Err = errs.WithCause(cause, o.Err) // it ended between two attempts
		}
		return o, panics.Repanic(Under(ctx, a.Uncertain(o)))
	}
	return o, nil
}

// MayAsk returns the reason why a query must not be sent, or nil.
func (a *Asker) MayAsk(ctx context.Context) error {
	switch {
	case a.Err != nil:
		return panics.Repanic(a.Err)
	case ctx == nil:
		return panics.Repanic(errs.CheckContext(ctx))
	case a.Client.ctx.Err() != nil:
		return panics.Repanic(errs.ErrClosed)
	case ctx.Err() != nil:
		return panics.Repanic(Under(ctx, errs.Unasked(context.Cause(ctx))))
	}
	return nil
}

// ExplainUnannounced turns the server's refusal to announce a release into advice for the user.
// text is the server's error.
func ExplainUnannounced(b *Lock, text string) string {
	if reply := serverError(text); !lua.IsDenied(reply) {
		return b.explain(reply).Error()
	}
	return "permit this user to publish on " + b.wire.Channel() + ": " + text
}

// serverError is an error of the server that came as a part of a reply.
type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError makes it an error of go-redis.
func (e serverError) RedisError() {}

// unannounced is the error of a release that the server did not announce. text is the server's
// error.
func unannounced(b *Lock, text string) error {
	return errors.New("released, but the waiters could not be told, and will find out by themselves later; " +
		ExplainUnannounced(b, text))
}
