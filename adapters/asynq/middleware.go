package holdfastasynq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/adapt"
)

// ErrNotRun says that a task's handler was not called, because somebody else has its lock
// ([holdfast.ErrNotAcquired]), or because Redis did not say who has it ([holdfast.ErrUnavailable]).
var ErrNotRun = errors.New("holdfastasynq: the task was not run")

// New makes a middleware for asynq.ServeMux.Use. locks makes the lock of a task, of any kind, or
// returns nil if the task needs none. Tasks with locks of one name are not processed at once. opts are
// for each task.
func New(locks func(t *asynq.Task) holdfast.Locker, opts ...holdfast.Option) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			lock, err := adapt.LockOf(locks, t)
			if err != nil {
				return err
			}
			if lock == nil {
				return next.ProcessTask(ctx, t)
			}
			opts := opts
			if !lastAttempt(ctx) {
				opts = adapt.Defaults(opts, holdfast.Wait(0))
			}
			ran, err := adapt.Run(ctx, lock, func(ctx context.Context) error { return next.ProcessTask(ctx, t) }, opts...)
			if !ran && (errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, holdfast.ErrUnavailable)) {
				return fmt.Errorf("%w: %w", ErrNotRun, err)
			}
			return err
		})
	}
}

// lastAttempt says that asynq archives the task if it returns an error now.
func lastAttempt(ctx context.Context) bool {
	retried, ok := asynq.GetRetryCount(ctx)
	most, known := asynq.GetMaxRetry(ctx)
	return ok && known && retried >= most
}

// IsFailure is for asynq.Config: a task that was not run has not failed.
func IsFailure(err error) bool { return err != nil && !errors.Is(err, ErrNotRun) }

// RetryDelay is for asynq.Config: a task that was not run is tried again after busy, and one that
// failed after what otherwise says; nil is asynq.DefaultRetryDelayFunc. Asynq looks for tasks that are
// due each Config.DelayedTaskCheckInterval, by default five seconds.
func RetryDelay(busy time.Duration, otherwise asynq.RetryDelayFunc) asynq.RetryDelayFunc {
	if otherwise == nil {
		otherwise = asynq.DefaultRetryDelayFunc
	}
	return func(n int, err error, t *asynq.Task) time.Duration {
		if errors.Is(err, ErrNotRun) {
			return busy
		}
		return otherwise(n, err, t)
	}
}
