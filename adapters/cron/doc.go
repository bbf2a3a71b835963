// Package holdfastcron lets robfig/cron on many machines run a job on one of them.
//
//	once := holdfastcron.New(rlock.New(client, "jobs:report"), logger, holdfast.HoldAtLeast(time.Minute))
//	c.AddJob("0 3 * * *", cron.NewChain(cron.Recover(logger), once).Then(holdfastcron.FuncJob(report)))
//
// The wrapper belongs into the chain of one job. In cron.WithChain all jobs would share its lock. Make it
// the innermost of its chain: the wrappers of cron hide a job's RunWithContext.
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
// A cron.Job has no context, so a plain one goes on after its lock is lost, while another machine runs
// the job too; the logger says so afterwards. A job that also has a method RunWithContext(ctx
// context.Context), such as a [FuncJob], is told: that method is called instead of Run, and its
// context ends when the lock is lost. Cron.Stop ends no context; it waits for the jobs.
//
// Package holdfastcron for netresearch/go-cron, a fork that is maintained and has jobs with contexts,
// is in the directory go-cron beside this one.
//
// # Not promised
//
// That a job runs in each period. It does not if Redis is out of reach at its ticks.
package holdfastcron
