// Package holdfastriver lets workers of River work one job at a time of those that must not meet.
//
//	once := holdfastriver.New(func(job *rivertype.JobRow) holdfast.Locker {
//		return rlock.New(client, "account:"+accountOf(job)) // nil: this job needs no lock
//	}, 5*time.Second)
//	river.NewClient(driver, &river.Config{Middleware: []rivertype.Middleware{once}, ...})
//
// The lock is tried once. If somebody else has it, or Redis does not answer, the job is snoozed, which
// uses up no attempt. With [holdfast.Wait] the job waits first, and occupies a worker.
//
// # Who is told of a loss
//
// The worker, by its context: it ends when the lock is lost, with [holdfast.ErrLost] as its cause. A job
// whose lock was lost has failed with ErrLost, even if its worker returned nil, and is worked again,
// because another may have been worked at the same time. If nobody answers to the Unlock of a job that
// is done, it is done. A job that is completed in a transaction of its own is completed with that
// transaction, whatever becomes of the lock: check the fencing token there.
//
// # Not promised
//
//   - That jobs are worked in the order in which they came.
//   - That no two workers meet where one ignores its context.
package holdfastriver
