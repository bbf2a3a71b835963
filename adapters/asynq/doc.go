// Package holdfastasynq lets servers of asynq process one task at a time of those that must not meet,
// and lets one of many processes run the scheduler.
//
//	mux.Use(holdfastasynq.New(func(t *asynq.Task) holdfast.Locker {
//		return rlock.New(client, "account:"+accountOf(t)) // nil: this task needs no lock
//	}))
//	srv := asynq.NewServer(conn, asynq.Config{
//		IsFailure:      holdfastasynq.IsFailure,
//		RetryDelayFunc: holdfastasynq.RetryDelay(5*time.Second, asynq.DefaultRetryDelayFunc),
//	})
//
// # What happens to a task whose lock somebody else has
//
// The lock is tried once. If somebody else has it, or Redis does not answer, the handler is not
// called, and asynq repeats the task later. With the two functions in the server's configuration that
// uses up no retry, and the delay is yours. Without them it counts as a failure. With [holdfast.Wait] each
// attempt waits first, for at most that time, and occupies a worker.
//
// Asynq archives a task that returns an error when it has no retries left, whatever IsFailure says. So
// the last attempt of a task, which may be its only one, does wait: until the lock is free or the
// task's context ends, or for as long as a [holdfast.Wait] of yours says. If Redis does not answer
// then, the task is archived although its handler was not called.
//
// # Who is told of a loss
//
// The handler, by its context: it ends when the lock is lost, with [holdfast.ErrLost] as its cause. A
// task whose lock was lost has failed with ErrLost, even if its handler returned nil, and is run again,
// because another may have run at the same time. If nobody answers to the Unlock of a task that is
// done, it is done.
//
// # Not promised
//
//   - That tasks are processed in the order in which they came.
//   - That no two handlers meet where one ignores its context. Asynq itself leaves such a handler behind
//     when the task's time is over; its lock is held until it returns.
package holdfastasynq
