package notify

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/event"
)

// EndNotice remembers, for one hold, to whom its end is reported. It is part of the hold: a separate allocation
// cost as much as all the rest of an observer in hand-offs within a process. Without an observer of ends the hold
// has none.
type EndNotice struct {
	to    *Notifier       // nil until Granted has returned; the hold's mutex guards this and the rest
	ctx   context.Context // the one that Granted had
	Since time.Duration   // when the hold began, by the engine's clock
}

// EndNotice arms the notice of a hold that began at a moment.
func (n *Notifier) EndNotice(ctx context.Context, since time.Duration) EndNotice {
	return EndNotice{n, ctx, since}
}

// WantsEnds reports whether the observer wants the ends of holds. The notifier may be nil.
func (n *Notifier) WantsEnds() bool { return n != nil && n.Ended != nil }

// Armed reports whether the end must be reported. The notice may be nil.
func (e *EndNotice) Armed() bool { return e != nil && e.to != nil }

// Tell reports the end in the goroutine of an Unlock.
func (e *EndNotice) Tell(end *event.End) {
	defer e.to.logPanic("Ended")
	e.to.Ended((*detachedContext)(e), *end)
}

// TellLater queues the end, for ends that no call of the user has caused.
func (e *EndNotice) TellLater(end event.End) {
	e.to.enqueue("Ended", roomForEnds, func() { e.to.Ended((*detachedContext)(e), end) })
}

// detachedContext is the context that Granted had, without its end. (Rejected: context.WithoutCancel, which takes memory
// for each hold.) A function that keeps it keeps the hold.
type detachedContext EndNotice

var _ context.Context = (*detachedContext)(nil)

func (*detachedContext) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (*detachedContext) Done() <-chan struct{}                   { return nil }
func (*detachedContext) Err() error                              { return nil }
func (d *detachedContext) Value(key any) any                     { return d.ctx.Value(key) }
func (d *detachedContext) String() string                        { return fmt.Sprint(context.WithoutCancel(d.ctx)) }
