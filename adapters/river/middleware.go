package holdfastriver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/adapt"
)

// DefaultSnooze is how long a job is put off whose lock somebody else has.
const DefaultSnooze = 5 * time.Second

// Middleware is a rivertype.WorkerMiddleware. Make one with [New].
type Middleware struct {
	river.MiddlewareDefaults
	locks  func(job *rivertype.JobRow) holdfast.Locker
	snooze time.Duration
	opts   []holdfast.Option
}

var _ rivertype.WorkerMiddleware = (*Middleware)(nil)

// New makes a Middleware for river.Config. locks makes the lock of a job, of any kind, or returns nil
// if the job needs none. Jobs with locks of one name are not worked at once. snooze is how long a job is
// put off that cannot have its lock; 0 or less is [DefaultSnooze]. opts are for each job.
func New(locks func(job *rivertype.JobRow) holdfast.Locker, snooze time.Duration, opts ...holdfast.Option) *Middleware {
	if snooze <= 0 {
		snooze = DefaultSnooze
	}
	return &Middleware{locks: locks, snooze: snooze, opts: adapt.Defaults(opts, holdfast.Wait(0))}
}

// Work is called by River for each job. Middlewares around this one see why a job is snoozed: errors.Is
// is true for [holdfast.ErrNotAcquired] or [holdfast.ErrUnavailable].
func (m *Middleware) Work(ctx context.Context, job *rivertype.JobRow, doInner func(context.Context) error) error {
	lock, err := adapt.LockOf(m.locks, job)
	if err != nil {
		return err
	}
	if lock == nil {
		return doInner(ctx)
	}
	ran, err := adapt.Run(ctx, lock, doInner, m.opts...)
	if !ran && (errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, holdfast.ErrUnavailable)) {
		return fmt.Errorf("%w: %w", river.JobSnooze(m.snooze), err)
	}
	return err
}
