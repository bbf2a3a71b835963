package adapt

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
)

// Logger is that of robfig/cron and its forks.
type Logger interface {
	Info(msg string, keysAndValues ...any)
	Error(err error, msg string, keysAndValues ...any)
}

// RunLogged is [Run] for jobs that return nothing, to schedulers that hear nothing. That somebody
// else has the lock is no error. l may be nil, which is one.
func RunLogged(ctx context.Context, l holdfast.Locker, log Logger, job func(ctx context.Context),
	opts ...holdfast.Option) {
	ran, err := Run(ctx, l, func(ctx context.Context) error {
		job(ctx)
		return nil
	}, opts...)
	name := ""
	if l != nil {
		name = l.Name()
	}
	switch {
	case err == nil:
	case ran:
		log.Error(err, "the lock was lost while the job ran", "lock", name)
	case errors.Is(err, holdfast.ErrNotAcquired):
		log.Info("skip: somebody else has the lock", "lock", name, "reason", err)
	case errors.Is(err, holdfast.ErrUnavailable):
		log.Error(err, "the job was not run: nobody knows who has the lock", "lock", name)
	default:
		log.Error(err, "the job was not run", "lock", name)
	}
}
