package engine

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/pipeline"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/pubsub"
)

const (
	// pingName is what the names of the locks that Ping takes begin with, behind the client's prefix.
	pingName = "holdfast_ping:"
	// pingLease is the lease of such a lock. Its token lives as long, so that a Ping that fails leaves nothing behind for longer.
	pingLease = 10 * time.Second
)

// Ping is what users know as Ping of holdfast.Client.
//
// Each call has a lock of its own, under the name of its owner: so calls do not refuse each other, and those of a cluster's
// client reach one master after another. A call after one that lacked a permission has the same name again: so ACL LOG has
// one entry for all that follow each other. The scripts are those of a plain lock. They are sent here and not by a [Lock],
// which would wait, renew, hand off, keep and publish a label.
func (c *Client) Ping(ctx context.Context) error {
	if err := c.Check(); err != nil {
		return pingFailed("", err)
	}
	var owner string
	if denied := c.pingDenied.Swap(nil); denied != nil {
		owner = *denied
	} else {
		owner = c.NewOwnerID(false)
	}
	k := keys.For(c.InRedis(pingName + owner))
	p := &ping{NewAsker(c, k.Name, func(err error) error { return remote.Explain(err, k.Name, remote.ALock, k.Token) }), k, owner}
	if err := p.CheckLength(k.Name); err != nil {
		return pingFailed(k.Name, err)
	}
	if err := p.MayAsk(ctx); err != nil {
		return pingFailed(k.Name, err)
	}
	sub := c.hub.Subscribe(k.Channel) // its answer comes meanwhile
	defer c.hub.Unlinger(k.Channel)
	defer sub.Close()
	for _, step := range []func(context.Context) error{p.lock, p.renew, p.unlock, p.forget, func(ctx context.Context) error { return p.listens(ctx, sub) }} {
		if err := step(ctx); err != nil {
			if lua.IsDenied(err) {
				c.pingDenied.Store(&owner)
			}
			return pingFailed(k.Name, err)
		}
	}
	return nil
}

func pingFailed(name string, why error) error {
	return errs.Reworded(errs.Text("holdfast", "ping", name, why), why)
}

// ping is one call of Ping. Its operations are sent as if they only read: whether one has happened concerns nobody, because
// no other call has this name meanwhile.
type ping struct {
	Asker
	keys  keys.Lock
	owner string
}

func (p *ping) lock(ctx context.Context) error {
	ms := kind.Millis(pingLease)
	o, err := p.Query(ctx, Reads, func(string) lua.Call { // as if an earlier attempt may have run: the owner is new
		return lua.Acquire.Call(p.keys.Name, p.keys.Token, p.owner, ms, ms, kind.Flag(true), 1, p.Client.server.Clock.Limit())
	})
	if err != nil || o.Reply.Status == lua.Done {
		return err
	}
	by := remote.RefusedBy(o.Reply.Refusal())
	return errs.Both(errs.ErrNotAcquired, errors.New(by.Text(0)))
}

func (p *ping) renew(ctx context.Context) error {
	ms := kind.Millis(pingLease)
	o, err := p.Query(ctx, Reads, func(string) lua.Call { return lua.Renew.Call(p.keys.Name, p.keys.Token, p.owner, ms, ms) })
	if err == nil && o.Reply.Status != lua.Done {
		return errGone
	}
	return err
}

// errGone is why a lock of Ping's cannot be renewed or released.
var errGone = errs.Both(errs.ErrLost, errors.New("the lock is gone: it took longer than its lease of "+pingLease.String()+
	", or the server has forgotten it"))

func (p *ping) unlock(ctx context.Context) error {
	o, err := p.Query(ctx, Reads, func(publish string) lua.Call {
		return lua.Release.Call(p.keys.Name, p.keys.Channel, p.owner, kind.Publish(publish))
	})
	switch {
	case err != nil:
		return err
	case o.Reply.Status != lua.Done && !o.MayArriveLate: // otherwise an attempt before that has released it
		return errGone
	}
	if refused := o.Reply.Unannounced(); refused != "" {
		if reply := serverError(refused); !lua.IsDenied(reply) {
			return p.explain(reply)
		}
		return errs.Both(errors.New("permit this user to publish on "+p.channels()), serverError(refused))
	}
	return nil
}

// forget deletes the token, which a lock leaves behind. The DEL is in a pipeline, which ends with the budget.
func (p *ping) forget(ctx context.Context) error {
	_, err := p.query(ctx, Reads, func() string { return p.keys.Token }, func(ctx context.Context, _ *atomic.Pointer[error]) (o remote.Outcome) {
		defer panics.Into(&o.Err)
		ctx, cancel := p.Client.server.Within(ctx, p.Client.session.Budget())
		defer cancel()
		pipe := p.Client.rdb.Pipeline()
		del := pipe.Del(ctx, p.keys.Token)
		pipeline.Exec(ctx, pipe)
		o.Err = del.Err()
		return o
	})
	return err
}

// channels is the pattern of the channels of all calls, as a permission has it.
func (p *ping) channels() string { return strings.TrimSuffix(p.keys.Channel, p.owner+"}") + "*" }

// listens waits until the server has confirmed the subscription, or refused it.
func (p *ping) listens(ctx context.Context, sub *pubsub.Subscription) error {
	limit, cancel := context.WithTimeoutCause(ctx, p.Client.session.Budget(), remote.ErrBudget)
	defer cancel()
	for !sub.Confirmed() {
		select {
		case <-sub.Wake():
		case <-limit.Done():
		case <-p.Client.ctx.Done():
		}
		if cause := p.Over(limit); errors.Is(cause, errs.ErrClosed) {
			return cause
		} else if cause != nil {
			return errs.Outage(errs.Both(errors.New("the subscription to "+p.keys.Channel+" was not confirmed"), cause))
		}
		if err := sub.Err(); err != nil {
			return errs.Both(errors.New("cannot listen for releases; permit this user to subscribe to "+p.channels()), p.explain(err))
		}
	}
	return nil
}
