package holdfastcron_test

import (
	"context"
	"testing"
	"time"

	"github.com/netresearch/go-cron"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	holdfastcron "github.com/holdfast-go/holdfast/adapters/go-cron"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// often is a schedule faster than those of cron, which count seconds.
type often struct{}

const tick = 10 * time.Millisecond

func (often) Next(now time.Time) time.Time { return now.Add(tick) }

// machine runs a job on one machine, which is stopped at the end of the test.
func machine(t *testing.T, job cron.Job) *cron.Cron {
	t.Helper()
	c := cron.New()
	_, err := c.ScheduleJob(often{}, job)
	require.NoError(t, err)
	c.Start()
	t.Cleanup(func() { <-c.Stop().Done() })
	return c
}

// locked is the job on one machine.
func locked(t *testing.T, j *adaptertest.Journal, job cron.Job, opts ...holdfast.Option) cron.Job {
	t.Helper()
	return cron.NewChain(holdfastcron.New(rlock.New(adaptertest.Client(t), t.Name()), j, opts...)).Then(job)
}

// TestNeverTwo: a job runs on one machine at a time; without the wrapper on several.
func TestNeverTwo(t *testing.T) {
	var with, without adaptertest.Section
	j := adaptertest.NewJournal()
	for range 3 {
		machine(t, locked(t, j, cron.FuncJobWithContext(func(ctx context.Context) { with.Linger(ctx, 5*tick) })))
		machine(t, cron.FuncJobWithContext(func(ctx context.Context) { without.Linger(ctx, time.Minute) }))
	}
	adaptertest.Eventually(t, "the job runs", func() bool { return with.Runs() >= 10 })
	adaptertest.Eventually(t, "without the lock two are at work", func() bool { return without.Most() > 1 })
	require.ErrorIs(t, adaptertest.Receive(t, "a skipped run", j.Skipped), holdfast.ErrNotAcquired)
	require.Equal(t, 1, with.Most())
	require.Empty(t, j.Failed)
}

// TestOncePerPeriod: the machine that ticks first runs the job, and the others do not.
func TestOncePerPeriod(t *testing.T) {
	var section adaptertest.Section
	j := adaptertest.NewJournal()
	for range 3 {
		machine(t, locked(t, j, cron.FuncJob(func() { section.Enter()() }), holdfast.HoldAtLeast(time.Hour)))
	}
	for range 10 {
		adaptertest.Receive(t, "a skipped run", j.Skipped)
	}
	require.Equal(t, 1, section.Runs())
	adaptertest.PassTime(t, t.Name())
	adaptertest.Eventually(t, "the next run", func() bool { return section.Runs() == 2 })
}

// endless is a job that goes on until its context ends.
func endless() (*adaptertest.Work, cron.Job) {
	work := adaptertest.NewWork()
	return work, cron.FuncJobWithContext(func(ctx context.Context) { _ = work.Do(ctx) })
}

// TestLoss: the job is told, the logger hears, and the lock of the one who came after it is not freed.
func TestLoss(t *testing.T) {
	j := adaptertest.NewJournal()
	work, job := endless()
	c := machine(t, locked(t, j, job))
	work.Lost(t, t.Name())
	require.ErrorIs(t, adaptertest.Receive(t, "the line in the log", j.Failed), holdfast.ErrLost)
	<-c.Stop().Done()
	adaptertest.RequireStrangers(t, t.Name())
}

// TestStop: the job is told that the Cron stops, and gives the lock back.
func TestStop(t *testing.T) {
	work, job := endless()
	c := machine(t, locked(t, adaptertest.NewJournal(), job))
	work.Begun(t)
	<-c.Stop().Done()
	require.ErrorIs(t, work.Ended(t), context.Canceled)
	adaptertest.RequireFree(t, t.Name())
}

// TestOuterWrapper: a wrapper of cron around this one hides the Cron's context from the job, which is told of a
// loss all the same. Stop waits for the job then.
func TestOuterWrapper(t *testing.T) {
	j := adaptertest.NewJournal()
	work, job := endless()
	c := machine(t, cron.NewChain(cron.Recover(j)).Then(locked(t, j, job)))
	work.Begun(t)
	stopped := c.Stop()
	adaptertest.Lose(t, t.Name())
	require.ErrorIs(t, work.Ended(t), holdfast.ErrLost)
	<-stopped.Done()
	adaptertest.RequireStrangers(t, t.Name())
}
