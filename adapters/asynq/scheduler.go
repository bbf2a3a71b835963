package holdfastasynq

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
)

// Scheduler is an *asynq.Scheduler or an *asynq.PeriodicTaskManager.
type Scheduler interface {
	Start() error
	Shutdown()
}

var (
	_ Scheduler = (*asynq.Scheduler)(nil)
	_ Scheduler = (*asynq.PeriodicTaskManager)(nil)
)

// RunScheduler runs a scheduler in one of the processes that call it, and in another one when that
// process is gone. It campaigns in e, and for each term of leadership makes a scheduler, with its
// entries, because asynq's cannot be started again. The scheduler is shut down when the leadership ends,
// and nobody else leads before that. It returns when ctx has ended, or with an error of newScheduler or
// Start, or one of [election.Election.Run]. value is what the election tells others of the leader.
//
// A lost leadership is different: another process may lead before this one has shut its scheduler
// down. A task that is due at that moment may be enqueued twice, and so may one that is due when the
// leader changes, if the clocks of the two differ. asynq.Unique or asynq.TaskID with the time in it
// keeps the second one out. Nothing is enqueued while nobody leads: asynq does not make up for it.
func RunScheduler(ctx context.Context, e *election.Election, value string, newScheduler func() (Scheduler, error)) error {
	if newScheduler == nil {
		return fmt.Errorf("%w: newScheduler is nil; pass a function that makes a scheduler", holdfast.ErrInvalid)
	}
	return e.Run(ctx, value, func(term context.Context) error {
		s, err := newScheduler()
		if err != nil {
			return err
		}
		if s == nil {
			return fmt.Errorf("%w: newScheduler made none; return an *asynq.Scheduler, or an error", holdfast.ErrInvalid)
		}
		if err := s.Start(); err != nil {
			return err
		}
		defer s.Shutdown()
		<-term.Done()
		return nil
	})
}
