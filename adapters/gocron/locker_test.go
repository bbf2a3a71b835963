package holdfastgocron_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
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
	t.Helper()
	return lockerOf(adaptertest.Client(t), opts...)
}

func lockerOf(c *holdfast.Client, opts ...holdfast.Option) *holdfastgocron.Locker {
	return holdfastgocron.NewLocker(func(name string) holdfast.Locker { return rlock.New(c, name) }, opts...)
}

// start starts a scheduler, which ends with the test.
func start(t *testing.T, opts ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
	s.Start()
	return s
}

// often is a schedule whose first run is now.
const often = 10 * time.Millisecond

func add(t *testing.T, s gocron.Scheduler, every time.Duration, task any, opts ...gocron.JobOption) {
	t.Helper()
	opts = append([]gocron.JobOption{
		gocron.WithName(t.Name()), gocron.WithStartAt(gocron.WithStartImmediately()),
	}, opts...)
	_, err := s.NewJob(gocron.DurationJob(every), gocron.NewTask(task), opts...)
	require.NoError(t, err)
}

// machine is a scheduler whose clock the test moves.
type machine struct {
	clock *clockwork.FakeClock
	did   chan error // for each tick nil if the job ran, or why not
}

func newMachine(t *testing.T, opts ...holdfast.Option) *machine {
	t.Helper()
	m := &machine{clock: clockwork.NewFakeClock(), did: make(chan error, 10)}
	s := start(t, gocron.WithClock(m.clock), gocron.WithDistributedLocker(newLocker(t, opts...)))
	_, err := s.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(func() { m.did <- nil }),
		gocron.WithName(t.Name()),
		gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { m.did <- err })))
	require.NoError(t, err)
	return m
}

// tick makes an hour pass and returns what the machine did then.
func (m *machine) tick(t *testing.T) error {
	t.Helper()
	require.NoError(t, m.clock.BlockUntilContext(t.Context(), 1))
	m.clock.Advance(time.Hour)
	return adaptertest.Receive(t, "a tick", m.did)
}

// TestOncePerPeriod: three machines whose clocks differ run a short job once in each period.
func TestOncePerPeriod(t *testing.T) {
	atLeast := holdfast.HoldAtLeast(30 * time.Minute)
	machines := []*machine{newMachine(t, atLeast), newMachine(t, atLeast), newMachine(t, atLeast)}
	for period := range 3 {
		for i := range machines {
			err := machines[(period+i)%len(machines)].tick(t)
			if i == 0 {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		}
		adaptertest.PassTime(t, t.Name())
	}
}

// TestOncePerPeriodControl: without HoldAtLeast each machine whose clock is behind runs the job again.
func TestOncePerPeriodControl(t *testing.T) {
	for _, m := range []*machine{newMachine(t), newMachine(t), newMachine(t)} {
		require.NoError(t, m.tick(t))
		adaptertest.RequireFree(t, t.Name())
	}
}

// TestNeverTwo: a job that takes longer than its period runs on one machine at a time; without the Locker on several.
func TestNeverTwo(t *testing.T) {
	var with, without adaptertest.Section
	for range 3 {
		s := start(t, gocron.WithDistributedLocker(newLocker(t)))
		add(t, s, often, func(ctx context.Context) { with.Linger(ctx, 5*often) })
		add(t, start(t), often, func(ctx context.Context) { without.Linger(ctx, time.Minute) })
	}
	adaptertest.Eventually(t, "the job runs", func() bool { return with.Runs() >= 10 })
	adaptertest.Eventually(t, "without the lock two are at work", func() bool { return without.Most() > 1 })
	require.Equal(t, 1, with.Most())
}

// failures is an option of a job and the errors of its runs.
func failures() (gocron.JobOption, <-chan error) {
	c := make(chan error, 10)
	hear := func(_ uuid.UUID, _ string, err error) {
		select {
		case c <- err:
		default: // nobody asks for so many
		}
	}
	return gocron.WithEventListeners(gocron.AfterJobRunsWithError(hear), gocron.AfterLockError(hear)), c
}

// TestLoss: the context of a Task ends when its lock is lost, its error says so, and its Unlock does
// not free the lock of the one who came after it.
func TestLoss(t *testing.T) {
	locker := newLocker(t)
	failed, errs := failures()
	work := adaptertest.NewWork()
	s := start(t, gocron.WithDistributedLocker(locker))
	add(t, s, time.Hour, locker.Task(t.Name(), work.Do), failed)
	work.Lost(t, t.Name())
	require.ErrorIs(t, adaptertest.Receive(t, "the error of the run", errs), holdfast.ErrLost)
	require.NoError(t, s.StopJobs()) // and so waits until the run is unlocked
	adaptertest.RequireStrangers(t, t.Name())
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

// TestOutage: the listener is told that Redis is away, and not that somebody has the lock.
func TestOutage(t *testing.T) {
	failed, errs := failures()
	s := start(t, gocron.WithDistributedLocker(lockerOf(adaptertest.Unreachable(t))))
	add(t, s, time.Hour, func() { t.Error("the job runs") }, failed)
	err := adaptertest.Receive(t, "the refusal", errs)
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.NotErrorIs(t, err, holdfast.ErrNotAcquired)
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
