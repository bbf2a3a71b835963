package engine

import (
	"context"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// Whether a query may change something at the server when no answer comes.
const (
	Reads   = false // nothing, so there is no outcome to be unknown
	Changes = true  // what it does, which is harmless when repeated
)

// Query runs a call that changes nothing, or that is harmless when repeated. build makes the call for
// each attempt.
func (a *Asker) Query(ctx context.Context, changes bool, build func(publish string) lua.Call) (remote.Outcome, error) {
	if err := a.MayAsk(ctx); err != nil {
		return remote.Outcome{}, err
	}
	op := func(bool) lua.Call { return build(a.Client.server.Publish) }
	o, ok := a.Client.session.Call(ctx, func(ctx context.Context, failed *atomic.Pointer[error]) remote.Outcome {
		return a.Client.session.Repeat(ctx, a.Client.server, op, failed)
	}, func(remote.Outcome) {})
	if !ok && o.Err == nil {
		o.Err = a.Client.server.Unreached(op(false).Key())
	}
	switch {
	case !ok && changes:
		return o, panics.Repanic(Under(ctx, errs.Outage(errs.Both(errs.ErrUncertain, errs.WithCause(context.Cause(ctx), o.Err)))))
	case !ok:
		return o, panics.Repanic(Under(ctx, errs.Outage(errs.WithCause(context.Cause(ctx), o.Err))))
	case o.Err != nil:
		o.Stray = o.Stray && changes
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
