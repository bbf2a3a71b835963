package event

import "context"

// Join makes one Observer of several: of metrics, traces and your own, for example. Each
// event goes to all of them, in the order in which they are given. Join leaves out nil
// ones.
//
// The context that Waiting of one returns goes to the next. So Granted, Refused and Ended of each
// get what its own Waiting put there. If a function of one panics, the others are called all the
// same, and the panic goes on afterwards. A panic of Waiting does not go on, and nobody logs it:
// otherwise the context that the others need would be lost.
func Join(observers ...*Observer) *Observer {
	all := &Observer{}
	for _, o := range observers {
		if o == nil {
			continue
		}
		all = &Observer{
			Waiting:    waitingOfBoth(all.Waiting, o.Waiting),
			Granted:    afterContext(all.Granted, o.Granted),
			Refused:    afterContext(all.Refused, o.Refused),
			Ended:      afterContext(all.Ended, o.Ended),
			Renewed:    after(all.Renewed, o.Renewed),
			Sent:       after(all.Sent, o.Sent),
			Subscribed: after(all.Subscribed, o.Subscribed),
			Dropped:    after(all.Dropped, o.Dropped),

			SelfBlocked: after(all.SelfBlocked, o.SelfBlocked),
			Deadlocked:  after(all.Deadlocked, o.Deadlocked),
		}
	}
	return all
}

// after calls both, also if the first panics. It is nil if both are, so that an event without a function costs
// nothing.
func after[E any](first, second func(E)) func(E) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(e E) {
		defer second(e)
		first(e)
	}
}

func afterContext[E any](first, second func(context.Context, E)) func(context.Context, E) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, e E) {
		defer second(ctx, e)
		first(ctx, e)
	}
}

// waiting is the type of [Observer.Waiting].
type waiting = func(context.Context, Wait) context.Context

func waitingOfBoth(first, second waiting) waiting {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, w Wait) context.Context {
		return begun(begun(ctx, w, first), w, second)
	}
}

// begun is what Waiting returns, or ctx if it returns none.
func begun(ctx context.Context, w Wait, f waiting) (out context.Context) {
	out = ctx
	defer func() { _ = recover() }()
	if derived := f(ctx, w); derived != nil {
		out = derived
	}
	return out
}
