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

func (often) Next(now time.Time) time.Time { return now.Add(adaptertest.Tick) }

// machine runs a job on one machine, which is stopped at the end of the test.
func machine(t *testing.T, job cron.Job) *cron.Cron {
	c := cron.New()
	_, err := c.ScheduleJob(often{}, job)
	require.NoError(t, err)
	c.Start()
	t.Cleanup(func() { <-c.Stop().Done() })
	return c
}

// locked is the job on one machine.
func locked(t *testing.T, j *adaptertest.Journal, job cron.Job, opts ...holdfast.Option) cron.Job {
	return cron.NewChain(holdfastcron.New(rlock.New(adaptertest.Client(t), t.Name()), j, opts...)).Then(job)
}

func TestCron(t *testing.T) {
	adaptertest.Cron(t, func(t *testing.T, j *adaptertest.Journal, run func(context.Context),
		opts ...holdfast.Option) func() {
		var job cron.Job = cron.FuncJobWithContext(run)
		if j != nil {
			job = locked(t, j, job, opts...)
		}
		c := machine(t, job)
		return func() { <-c.Stop().Done() }
	})
}

// endless is a job that goes on until its context ends.
func endless() (*adaptertest.Work, cron.Job) {
	work := adaptertest.NewWork()
	return work, cron.FuncJobWithContext(func(ctx context.Context) { _ = work.Do(ctx) })
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

// TestOuterWrapper: a wrapper around this one hides the Cron's context; the job is told of a loss anyway. Stop waits for it.
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
