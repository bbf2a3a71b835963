package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// story is what an observer is told at the end of a hold. A hold that nobody observes has none. Each that
// is observed allocates one, so it is small.
type story struct {
	to    *observed
	ctx   context.Context // that Granted had
	kind  string
	name  string
	owner string
	token uint64
	count int
	since time.Duration // by sinceStart
}

// start is long ago, for times that are only compared. To read the wall clock, too, would take twice as
// long, and an observer needs three times for each hold.
var start = time.Now()

func sinceStart() time.Duration { return time.Since(start) }

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
	return EndEvent{
		Kind: s.kind, Name: s.name, Owner: s.owner, Token: s.token, Count: s.count,
		Reason: reason, Held: sinceStart() - s.since, Err: err,
	}
}

// reasonOf is why a hold ended that was unlocked: the lock may have been lost before, or the client
// closed, and then Unlock says so.
func reasonOf(err error) error {
	if errors.Is(err, errs.ErrLost) || errors.Is(err, errs.ErrClosed) {
		return err
	}
	return errs.ErrReleased
}
