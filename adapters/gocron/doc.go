// Package holdfastgocron lets schedulers of gocron on many machines run a job on one of them.
//
//	locker := holdfastgocron.NewLocker(func(name string) holdfast.Locker {
//		return rlock.New(client, "jobs:"+name)
//	}, holdfast.HoldAtLeast(time.Minute))
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//	...
//	scheduler.NewJob(gocron.CronJob("0 3 * * *", false),
//		gocron.NewTask(locker.Task("report", report)), gocron.WithName("report"))
//
// There are two ways, of which a scheduler takes one. With a [Locker] whoever comes first runs the
// job. With an [Elector] one scheduler runs all jobs, and another one when that one is gone.
//
// # Once per period
//
// Schedulers do not tick at the same moment: their clocks differ, and a DurationJob ticks from when
// its scheduler was started. A job that is done before the next scheduler ticks is free by then, and
// runs again. [holdfast.HoldAtLeast] keeps its lock for a minimum time. Make that longer than the
// ticks can be apart, and shorter than the period. A job that takes longer is locked for as long as it
// takes.
//
// The lock is tried once. A run whose lock somebody else has is skipped: gocron tells the listener
// AfterLockError, with an error for which errors.Is is true for [holdfast.ErrNotAcquired]. If Redis
// does not answer, it is [holdfast.ErrUnavailable], and the job runs on no machine.
//
// # Who is told of a loss
//
// gocron gives a job no context that ends with its lock, and drops the error of Unlock. So a plain
// task goes on after its lock is lost, while another machine runs the job too. [Locker.Task] and
// [Elector.Task] are tasks that are told: their context ends, and their error says so to the listener
// AfterJobRunsWithError.
//
// # Names
//
// gocron locks by the name of the job. Without gocron.WithName that is the name of the Go function:
// two jobs of one function share a lock, and to rename the function is to take another lock while old
// machines still run. Name each job.
//
// # Not promised
//
//   - That a job runs in each period. It does not if Redis is out of reach at its ticks.
//   - With an Elector, that a job does not overlap itself: one that takes longer than its period runs twice at the
//     same time on the machine that leads. gocron.WithSingletonMode prevents that; a Locker does in any case.
//   - With an Elector, that a job runs once in a period in which the leader changes: the old leader
//     may have ticked, and the new one, whose clock is behind, ticks too.
package holdfastgocron
