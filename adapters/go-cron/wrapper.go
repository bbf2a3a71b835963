package holdfastcron

import (
	"context"

	"github.com/netresearch/go-cron"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/adapt"
)

// New makes a wrapper that runs a job only while this machine holds the lock, of any kind. opts are for
// each run; give [holdfast.HoldAtLeast]. With [holdfast.Wait] a run waits for the lock instead of being
// skipped, and then runs once more. A nil logger is cron.DefaultLogger.
//
// The context of a cron.JobWithContext is that of the hold, which carries the fencing token. If the job
// panics, the lock is given back, and the panic goes on.
func New(lock holdfast.Locker, logger cron.Logger, opts ...holdfast.Option) cron.JobWrapper {
	if logger == nil {
		logger = cron.DefaultLogger
	}
	opts = adapt.Defaults(opts, holdfast.Wait(0))
	return func(job cron.Job) cron.Job {
		return cron.FuncJobWithContext(func(ctx context.Context) {
			adapt.RunLogged(ctx, lock, logger, func(ctx context.Context) {
				if with, ok := job.(cron.JobWithContext); ok {
					with.RunWithContext(ctx)
					return
				}
				job.Run()
			}, opts...)
		})
	}
}
