package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
)

// story is what an observer is told at the end of a hold, beside what the hold says itself. It lies
// next to the hold: to allocate it by itself cost as much as all else that an observer costs where a
// lock is handed on within a process. A hold of which nobody hears has none.
type story struct {
	to    *observed       // nil until Granted has returned; the hold's mutex guards it, and so the rest
	ctx   context.Context // that Granted had
	since time.Duration   // by sinceStart. Where the lock was handed on, who did so has set it, before the holder knew
}

// start is long ago, for times that are only compared. To read the wall clock, too, would take twice as
// long, and an observer needs three times for each hold.
var start = time.Now()

func sinceStart() time.Duration { return time.Since(start) }

// begun reports whether the end is to be told.
func (s *story) begun() bool { return s != nil && s.to != nil }

// end is told in the goroutine of an Unlock.
func (s *story) end(e *EndEvent) {
	defer s.to.survive("Ended")
	s.to.Ended((*aftermath)(s), *e)
}

// endLater is told aside: nobody has called.
func (s *story) endLater(e EndEvent) {
	s.to.later("Ended", roomForEnds, func() { s.to.Ended((*aftermath)(s), e) })
}

// aftermath is the context that Granted had, for after its end: like one of context.WithoutCancel, which would take
// memory for each hold. Who keeps it keeps the hold.
type aftermath story

var _ context.Context = (*aftermath)(nil)

func (*aftermath) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (*aftermath) Done() <-chan struct{}                   { return nil }
func (*aftermath) Err() error                              { return nil }
func (a *aftermath) Value(key any) any                     { return a.ctx.Value(key) }
func (a *aftermath) String() string                        { return fmt.Sprint(context.WithoutCancel(a.ctx)) }

// reasonOf is why a hold ended whose Unlock failed: the lock may have been lost before, or the client
// closed, and then Unlock says so.
func reasonOf(err error) error {
	if errors.Is(err, errs.ErrLost) || errors.Is(err, errs.ErrClosed) {
		return err
	}
	return errs.ErrReleased
}
