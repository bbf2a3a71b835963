// Package told counts what an observer hears, as metrics do. What it costs is mostly the library's part: to
// measure times, to make events, and to tell them. It is for the benchmark and for bench/observing.
//
// Not promised: numbers of a moment that fit each other.
package told

import (
	"context"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/event"
)

// Counters are how often, and for how many nanoseconds.
type Counters struct {
	Waits, Grants, Refusals, Ends, Renewals, Scripts, Dropped atomic.Int64
	Waited, Took                                              atomic.Int64
}

// Observer counts in them.
func (c *Counters) Observer() *event.Observer {
	return &event.Observer{
		Waiting: func(ctx context.Context, _ event.Wait) context.Context {
			c.Waits.Add(1)
			return ctx
		},
		Granted: func(_ context.Context, e event.Grant) { c.Grants.Add(1); c.Waited.Add(int64(e.Waited)) },
		Refused: func(context.Context, event.Refusal) { c.Refusals.Add(1) },
		Ended:   func(context.Context, event.End) { c.Ends.Add(1) },
		Renewed: func(event.Renewal) { c.Renewals.Add(1) },
		Sent:    func(e event.Script) { c.Scripts.Add(1); c.Took.Add(int64(e.Took)) },
		Dropped: func(n int) { c.Dropped.Add(int64(n)) },
	}
}
