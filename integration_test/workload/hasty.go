package workload

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
)

// Haste makes an actor one of many who come all at once and do not stay: more than a lock can serve.
type Haste struct {
	// Longest is how long one of them waits at most, or until its context ends; 0: the actor is none of them.
	Longest time.Duration
	// Every is the time between two bursts. Each is at the same moments, by the recorder's clock.
	Every time.Duration
	// Rounds is how many of them are a burst, on average.
	Rounds int
}

// hasty makes of a Lock one that asks once, waits for a moment, or whose context ends at any moment,
// or has ended.
func (a *Actor) hasty(op history.Op, opts []holdfast.Option, cancel func()) (_ history.Op, _ []holdfast.Option,
	stop func()) {
	moment := 1 + time.Duration(a.rng.Int64N(int64(a.Haste.Longest)))
	switch a.rng.IntN(8) {
	case 0:
		op.Kind = history.Try
	case 1:
		cancel()
	case 2, 3:
		timer := time.AfterFunc(moment, cancel)
		return op, append(opts, holdfast.Wait(a.Patience)), func() { timer.Stop() }
	}
	return op, append(opts, holdfast.Wait(moment)), func() {}
}

// rest is the pause between two rounds.
func (a *Actor) rest(ctx context.Context) {
	switch every := int64(a.Haste.Every); {
	case a.Haste.Longest == 0:
		a.pause(ctx, a.random(a.Think))
	case a.rng.IntN(a.Haste.Rounds) == 0:
		a.pause(ctx, time.Duration(every-a.Now()%every))
	}
}
