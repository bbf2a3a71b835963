package holdfastgocron_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	holdfastgocron "github.com/holdfast-go/holdfast/adapters/gocron"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// newLocker makes the Locker of one machine. Locks have the names of jobs.
func newLocker(t *testing.T, opts ...holdfast.Option) *holdfastgocron.Locker {
	return lockerOf(adaptertest.Client(t), opts...)
}

func lockerOf(c *holdfast.Client, opts ...holdfast.Option) *holdfastgocron.Locker {
	return holdfastgocron.NewLocker(func(name string) holdfast.Locker { return rlock.New(c, name) }, opts...)
}

// start starts a scheduler, which ends with the test.
func start(t *testing.T, opts ...gocron.SchedulerOption) gocron.Scheduler {
	s, err := gocron.NewScheduler(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
	s.Start()
	return s
}

// add adds a job whose first run is now.
func add(t *testing.T, s gocron.Scheduler, every time.Duration, task any, opts ...gocron.JobOption) {
	opts = append([]gocron.JobOption{
		gocron.WithName(t.Name()), gocron.WithStartAt(gocron.WithStartImmediately()),
	}, opts...)
	_, err := s.NewJob(gocron.DurationJob(every), gocron.NewTask(task), opts...)
	require.NoError(t, err)
}

func TestCron(t *testing.T) {
	adaptertest.Cron(t, func(t *testing.T, j *adaptertest.Journal, job func(context.Context),
		opts ...holdfast.Option) func() {
		if j == nil {
			s := start(t)
			add(t, s, adaptertest.Tick, job)
			return func() { require.NoError(t, s.StopJobs()) }
		}
		locker := newLocker(t, opts...)
		s := start(t, gocron.WithDistributedLocker(locker))
		run := locker.Task(t.Name(), func(ctx context.Context) error { job(ctx); return nil })
		add(t, s, adaptertest.Tick, run, gocron.WithEventListeners(
			gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { j.Info("", err) }),
			gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { j.Error(err, "") })))
		return func() { require.NoError(t, s.StopJobs()) } // waits until the run is unlocked
	})
}

// failures is an option of a job and the errors of its runs.
func failures() (gocron.JobOption, <-chan error) {
	c := make(chan error, 10)
	hear := func(_ uuid.UUID, _ string, err error) { adaptertest.Tell(c, err) }
	return gocron.WithEventListeners(gocron.AfterJobRunsWithError(hear), gocron.AfterLockError(hear)), c
}

// TestShutdown: gocron unlocks under a context that has ended. The lock is free all the same.
func TestShutdown(t *testing.T) {
	locker := newLocker(t)
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	require.NoError(t, err)
	work := adaptertest.NewWork()
	add(t, s, time.Hour, locker.Task(t.Name(), work.Do))
	s.Start()
	work.Begun(t)
	require.NoError(t, s.Shutdown())
	require.ErrorIs(t, work.Ended(t), context.Canceled)
	adaptertest.RequireFree(t, t.Name())
}

// TestPanic: a job that panics gives the lock back.
func TestPanic(t *testing.T) {
	panicked := make(chan any, 1)
	s := start(t, gocron.WithDistributedLocker(newLocker(t)))
	add(t, s, time.Hour, func() { panic("out of paper") },
		gocron.WithEventListeners(gocron.AfterJobRunsWithPanic(func(_ uuid.UUID, _ string, what any) { panicked <- what })))
	require.Equal(t, "out of paper", adaptertest.Receive(t, "the panic", panicked))
	adaptertest.RequireFree(t, t.Name())
}

// TestFreshOwner: a job whose context is that of a hold of its lock does not re-enter.
func TestFreshOwner(t *testing.T) {
	c := adaptertest.Client(t)
	hold, err := rlock.New(c, t.Name()).Lock(t.Context())
	require.NoError(t, err)
	failed, errs := failures()
	s := start(t, gocron.WithDistributedLocker(lockerOf(c)))
	add(t, s, time.Hour, func() { t.Error("the job runs") }, gocron.WithContext(hold.Context()), failed)
	require.ErrorIs(t, adaptertest.Receive(t, "the refusal", errs), holdfast.ErrNotAcquired)
	require.NoError(t, hold.Unlock(t.Context()))
}

// TestTaskOfAnotherName: a Task that is not run under its lock says so, and does nothing.
func TestTaskOfAnotherName(t *testing.T) {
	locker := newLocker(t)
	failed, errs := failures()
	s := start(t, gocron.WithDistributedLocker(locker))
	add(t, s, time.Hour, locker.Task("another", func(context.Context) error {
		t.Error("the job runs")
		return nil
	}), failed)
	err := adaptertest.Receive(t, "the error of the run", errs)
	require.ErrorIs(t, err, holdfastgocron.ErrNotLocked)
	require.ErrorContains(t, err, `"another"; pass that name to gocron.WithName`)
	adaptertest.RequireFree(t, t.Name())
}

// TestErrors: what a task returns is what gocron hears.
func TestErrors(t *testing.T) {
	locker := newLocker(t)
	broken := errors.New("out of paper")
	failed, errs := failures()
	s := start(t, gocron.WithDistributedLocker(locker))
	add(t, s, time.Hour, locker.Task(t.Name(), func(context.Context) error { return broken }), failed)
	require.Equal(t, broken, adaptertest.Receive(t, "the error of the run", errs))

	_, err := holdfastgocron.NewLocker(nil).Lock(t.Context(), "a")
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	_, err = holdfastgocron.NewLocker(func(string) holdfast.Locker { return nil }).Lock(t.Context(), "a")
	require.ErrorIs(t, err, holdfast.ErrInvalid)

	// gocron refuses a task that is nil, and cannot see this one.
	adaptertest.RequireFree(t, t.Name())
	add(t, s, time.Hour, locker.Task(t.Name(), nil), failed)
	err = adaptertest.Receive(t, "the error of the run", errs)
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	require.ErrorContains(t, err, "fn is nil; pass Task the function to run")
	require.ErrorIs(t, holdfastgocron.NewElector(nil).Run(t.Context(), "me"), holdfast.ErrInvalid)
	require.ErrorIs(t, holdfastgocron.NewElector(nil).Task(nil)(t.Context()), holdfast.ErrInvalid)
}
