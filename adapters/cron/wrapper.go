package holdfastcron

import (
	"context"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/adapt"
)

// New makes a wrapper that runs a job only while this machine holds the lock, of any kind. opts are for
// each run; give [holdfast.HoldAtLeast]. With [holdfast.Wait] a run waits for the lock instead of being
// skipped, and then runs once more. A nil logger is cron.DefaultLogger.
//
// If the job panics, the lock is given back, and the panic goes on.
func New(lock holdfast.Locker, logger cron.Logger, opts ...holdfast.Option) cron.JobWrapper {
	if logger == nil {
		logger = cron.DefaultLogger
	}
	opts = adapt.Defaults(opts, holdfast.Wait(0))
	return func(job cron.Job) cron.Job {
		run := func(context.Context) { job.Run() }
		if with, ok := job.(interface{ RunWithContext(ctx context.Context) }); ok {
			run = with.RunWithContext
		}
		return cron.FuncJob(func() { adapt.RunLogged(context.Background(), lock, logger, run, opts...) })
	}
}

// FuncJob is a job that is told of the loss of its lock by its context, which carries the fencing token.
type FuncJob func(ctx context.Context)

var _ cron.Job = FuncJob(nil)

// Run runs the job without a lock. It is for a chain without the wrapper of [New].
func (f FuncJob) Run() { f(context.Background()) }

// RunWithContext is called by the wrapper of [New].
func (f FuncJob) RunWithContext(ctx context.Context) { f(ctx) }
