package notify

import (
	"context"
	"fmt"
	"time"
)

// EndNotice remembers, for one hold, what its end is told to. It lies beside the hold: allocated by itself it
// cost as much as all the rest of an observer where a lock is handed off within a process. A hold whose end
// nobody is told of has none.
type EndNotice struct {
	to    *Notifier       // nil until Granted has returned; the hold's mutex guards it, and so the rest
	ctx   context.Context // that Granted had
	Since time.Duration   // when the hold began, by the engine's clock
}

// EndNotice arms the notice of a hold that began at a moment.
func (n *Notifier) EndNotice(ctx context.Context, since time.Duration) EndNotice {
	return EndNotice{n, ctx, since}
}

// WantsEnds reports whether ends of holds are told. The notifier may be nil.
func (n *Notifier) WantsEnds() bool { return n != nil && n.Ended != nil }

// Armed reports whether the end is to be told. The notice may be nil.
func (e *EndNotice) Armed() bool { return e != nil && e.to != nil }

// Tell tells of the end in the goroutine of an Unlock.
func (e *EndNotice) Tell(event *EndEvent) {
	defer e.to.survive("Ended")
	e.to.Ended((*detachedContext)(e), *event)
}

// TellLater queues the end: no call of the user's has caused it.
func (e *EndNotice) TellLater(event EndEvent) {
	e.to.later("Ended", roomForEnds, func() { e.to.Ended((*detachedContext)(e), event) })
}

// detachedContext is the context that Granted had, without its end, as context.WithoutCancel makes it, which would
// take memory for each hold. A function that keeps it keeps the hold.
type detachedContext EndNotice

var _ context.Context = (*detachedContext)(nil)

func (*detachedContext) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (*detachedContext) Done() <-chan struct{}                   { return nil }
func (*detachedContext) Err() error                              { return nil }
func (d *detachedContext) Value(key any) any                     { return d.ctx.Value(key) }
func (d *detachedContext) String() string                        { return fmt.Sprint(context.WithoutCancel(d.ctx)) }
