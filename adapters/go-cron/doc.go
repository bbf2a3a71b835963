// Package holdfastcron lets netresearch/go-cron on many machines run a job on one of them. It is package
// holdfastcron of robfig/cron, for the fork that passes a context to jobs.
//
//	once := holdfastcron.New(rlock.New(client, "jobs:report"), logger, holdfast.HoldAtLeast(time.Minute))
//	c.AddJob("0 3 * * *", cron.NewChain(once).Then(cron.FuncJobWithContext(report)))
//
// The wrapper belongs into the chain of one job. In cron.WithChain all jobs would share its lock. Make it
// the innermost of its chain: other wrappers of cron hide a job's RunWithContext.
//
// # Once per period
//
// Machines do not tick at the same moment, because their clocks differ. A job that is done before the
// next machine ticks is free by then, and runs again. [holdfast.HoldAtLeast] keeps its lock for a
// minimum time. Make that longer than the clocks can be apart, and shorter than the period. A job that
// takes longer is locked for as long as it takes.
//
// The lock is tried once. A run whose lock somebody else has is skipped, and the logger's Info says
// so, which cron.DefaultLogger drops: take cron.VerbosePrintfLogger to see it. If Redis does not
// answer, the logger's Error says so, and the job runs on no machine.
//
// # Who is told of a loss
//
// A cron.JobWithContext, such as a cron.FuncJobWithContext: its context ends when the lock is lost, with
// [holdfast.ErrLost] as its cause, and when the Cron is stopped. A wrapper of cron around this one, such
// as cron.Recover, hides the Cron's context: then the job is told of a loss, and not that the Cron is
// stopped, which waits for it. A plain job goes on after its lock is lost, while another machine runs it
// too; the logger says so afterwards.
//
// # Not promised
//
// That a job runs in each period. It does not if Redis is out of reach at its ticks.
package holdfastcron
