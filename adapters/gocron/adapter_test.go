package holdfastgocron_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	holdfastgocron "github.com/holdfast-go/holdfast/adapters/gocron"
	"github.com/holdfast-go/holdfast/election"
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

// candidate is a machine that campaigns.
type candidate struct {
	*holdfastgocron.Elector
	resign func() // and wait until it has
	done   chan struct{}
}

func newCandidate(t *testing.T) *candidate {
	ctx, cancel := context.WithCancel(t.Context())
	c := &candidate{
		Elector: holdfastgocron.NewElector(election.New(adaptertest.Client(t), t.Name())),
		done:    make(chan struct{}),
	}
	go func() {
		defer close(c.done)
		_ = c.Run(ctx, "me")
	}()
	c.resign = func() {
		cancel()
		adaptertest.Receive(t, "the end of Run", c.done)
	}
	t.Cleanup(c.resign)
	return c
}

func (c *candidate) leads() bool { return c.IsLeader(context.Background()) == nil }

// TestElector: only the leader's scheduler runs jobs, and the next one's when it resigns.
func TestElector(t *testing.T) {
	var mu sync.Mutex
	ran := map[*candidate]int{}
	runs := func(c *candidate) int {
		mu.Lock()
		defer mu.Unlock()
		return ran[c]
	}
	a, b := newCandidate(t), newCandidate(t)
	adaptertest.Eventually(t, "one leads", func() bool { return a.leads() || b.leads() })
	if b.leads() {
		a, b = b, a
	}
	for _, c := range []*candidate{a, b} {
		s := start(t, gocron.WithDistributedElector(c))
		add(t, s, adaptertest.Tick, func() {
			mu.Lock()
			defer mu.Unlock()
			ran[c]++
		})
	}
	adaptertest.Eventually(t, "the leader runs jobs", func() bool { return runs(a) >= 10 })
	require.Zero(t, runs(b))
	require.ErrorIs(t, b.IsLeader(t.Context()), holdfastgocron.ErrNotLeader)
	a.resign()
	require.ErrorIs(t, a.IsLeader(t.Context()), holdfastgocron.ErrNotLeader)
	adaptertest.Eventually(t, "the next one runs jobs", func() bool { return runs(b) >= 3 })
}

// TestElectorLoss: a task is told that the leadership is lost. Its scheduler runs nothing until it leads again.
func TestElectorLoss(t *testing.T) {
	c := newCandidate(t)
	adaptertest.Eventually(t, "it leads", c.leads)
	failed, errs := failures()
	work := adaptertest.NewWork()
	task := c.Task(work.Do)
	add(t, start(t, gocron.WithDistributedElector(c)), time.Hour, task, failed)
	work.Lost(t, t.Name())
	require.ErrorIs(t, adaptertest.Receive(t, "the error of the run", errs), holdfast.ErrLost)
	require.False(t, c.leads())
	require.ErrorIs(t, task(t.Context()), holdfastgocron.ErrNotLeader)
	adaptertest.RequireStrangers(t, t.Name())
	adaptertest.GiveBack(t, t.Name())
	adaptertest.Eventually(t, "it leads again", c.leads)
}

// TestElectorWaits: nobody else leads before the tasks of the one who resigns have ended.
func TestElectorWaits(t *testing.T) {
	a := newCandidate(t)
	adaptertest.Eventually(t, "it leads", a.leads)
	b := newCandidate(t)
	began, finish := make(chan struct{}, 1), make(chan struct{})
	add(t, start(t, gocron.WithDistributedElector(a)), time.Hour, a.Task(func(ctx context.Context) error {
		began <- struct{}{}
		<-ctx.Done()
		<-finish // it takes its time
		return nil
	}))
	adaptertest.Receive(t, "the job", began)
	resigned := make(chan struct{})
	go func() {
		defer close(resigned)
		a.resign()
	}()
	adaptertest.Eventually(t, "the first leads no more", func() bool { return !a.leads() })
	require.True(t, adaptertest.Taken(t, t.Name()))
	require.False(t, b.leads())
	select {
	case <-resigned:
		t.Error("it has resigned while its task runs")
	default:
	}
	close(finish)
	adaptertest.Receive(t, "the resignation", resigned)
	adaptertest.Eventually(t, "the second leads", b.leads)
}

// TestElectorEndsWithTheJob: gocron ends the job's context, and so that of the Task.
func TestElectorEndsWithTheJob(t *testing.T) {
	c := newCandidate(t)
	adaptertest.Eventually(t, "it leads", c.leads)
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(c))
	require.NoError(t, err)
	work := adaptertest.NewWork()
	add(t, s, time.Hour, c.Task(work.Do))
	s.Start()
	work.Begun(t)
	require.NoError(t, s.Shutdown())
	require.ErrorIs(t, work.Ended(t), context.Canceled)
	require.True(t, c.leads())
}
