package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// story is what an observer is told at the end of a hold. A hold that nobody observes has none.
type story struct {
	to    *observed
	ctx   context.Context // that Granted had
	of    EndEvent        // without its end
	since time.Time
}

// end is told in the goroutine of an Unlock, which has come to err.
func (s *story) end(err error) {
	e := s.event(reasonOf(err), err)
	s.to.tell("Ended", func() { s.to.Ended(remote.Detach(s.ctx), e) })
}

// endLater is told aside: nobody has called.
func (s *story) endLater(reason error) {
	e := s.event(reason, nil)
	s.to.later("Ended", roomForEnds, func() { s.to.Ended(remote.Detach(s.ctx), e) })
}

func (s *story) event(reason, err error) EndEvent {
	e := s.of
	e.Reason, e.Err, e.Held = reason, err, time.Since(s.since)
	return e
}

// reasonOf is why a hold ended that was unlocked: the lock may have been lost before, or the client
// closed, and then Unlock says so.
func reasonOf(err error) error {
	if errors.Is(err, errs.ErrLost) || errors.Is(err, errs.ErrClosed) {
		return err
	}
	return errs.ErrReleased
}
