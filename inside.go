package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/notify"
)

// What the engine is given of the structs whose types differ there. A test goes through their fields,
// so that none is forgotten.

// inside is the options as the engine has them; nil for nil.
func (o *Options) inside() *engine.Options {
	if o == nil {
		return nil
	}
	return &engine.Options{
		Lease: o.Lease, RetryBudget: o.RetryBudget, Linger: o.Linger, Logger: o.Logger, Observer: o.Observer.inside(),
		Label: o.Label, LongWait: o.LongWait, Prefix: o.Prefix, ClassicPubSub: o.ClassicPubSub,
	}
}

// inside is the observer as the engine has it: a function that is nil stays nil.
func (o *Observer) inside() *notify.Observer {
	if o == nil {
		return nil
	}
	in := &notify.Observer{Dropped: o.Dropped}
	if f := o.Waiting; f != nil {
		in.Waiting = func(ctx context.Context, e notify.WaitEvent) context.Context { return f(ctx, WaitEvent(e)) }
	}
	if f := o.Granted; f != nil {
		in.Granted = func(ctx context.Context, e notify.GrantEvent) { f(ctx, grantEvent(e)) }
	}
	if f := o.Refused; f != nil {
		in.Refused = func(ctx context.Context, e notify.RefusalEvent) { f(ctx, RefusalEvent(e)) }
	}
	if f := o.Ended; f != nil {
		in.Ended = func(ctx context.Context, e notify.EndEvent) { f(ctx, EndEvent(e)) }
	}
	if f := o.Renewed; f != nil {
		in.Renewed = func(e notify.RenewalEvent) { f(RenewalEvent(e)) }
	}
	if f := o.Sent; f != nil {
		in.Sent = func(e notify.ScriptEvent) { f(ScriptEvent(e)) }
	}
	if f := o.SelfBlocked; f != nil {
		in.SelfBlocked = func(e notify.SelfBlockEvent) { f(SelfBlockEvent(e)) }
	}
	if f := o.Deadlocked; f != nil {
		in.Deadlocked = func(e notify.DeadlockEvent) { f(deadlockEvent(e)) }
	}
	if f := o.Subscribed; f != nil {
		in.Subscribed = func(e notify.SubscriptionEvent) { f(SubscriptionEvent(e)) }
	}
	return in
}

func deadlockEvent(e notify.DeadlockEvent) DeadlockEvent {
	out := DeadlockEvent{Kind: e.Kind, Name: e.Name, Waited: e.Waited, Where: e.Where}
	for _, w := range e.Circle {
		out.Circle = append(out.Circle, DeadlockedWait(w))
	}
	return out
}

func grantEvent(e notify.GrantEvent) GrantEvent {
	return GrantEvent{
		Kind: e.Kind, Name: e.Name, Owner: e.Owner, Token: e.Token, Count: e.Count, How: How(e.How), Waited: e.Waited,
		Contended: e.Contended,
	}
}
