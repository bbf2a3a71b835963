package holdfastcron_test

import (
	"context"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	holdfastcron "github.com/holdfast-go/holdfast/adapters/cron"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// often is a schedule faster than those of cron, which count seconds.
type often time.Duration

func (o often) Next(now time.Time) time.Time { return now.Add(time.Duration(o)) }

const tick = often(10 * time.Millisecond)

// start runs a job on one machine, which is stopped at the end of the test.
func start(t *testing.T, schedule cron.Schedule, job cron.Job, wrappers ...cron.JobWrapper) *cron.Cron {
	t.Helper()
	c := cron.New()
	c.Schedule(schedule, cron.NewChain(wrappers...).Then(job))
	c.Start()
	t.Cleanup(func() { <-c.Stop().Done() })
	return c
}

// once makes the wrapper of one machine.
func once(t *testing.T, j *adaptertest.Journal, opts ...holdfast.Option) cron.JobWrapper {
	t.Helper()
	return holdfastcron.New(rlock.New(adaptertest.Client(t), t.Name()), j, opts...)
}

// TestNeverTwo: a job runs on one machine at a time, and the runs of the others are skipped; without the wrapper on several.
func TestNeverTwo(t *testing.T) {
	var with, without adaptertest.Section
	j := adaptertest.NewJournal()
	for range 3 {
		start(t, tick, holdfastcron.FuncJob(func(ctx context.Context) { with.Linger(ctx, 5*time.Duration(tick)) }), once(t, j))
		start(t, tick, cron.FuncJob(func() { without.Linger(t.Context(), time.Minute) }))
	}
	adaptertest.Eventually(t, "the job runs", func() bool { return with.Runs() >= 10 })
	adaptertest.Eventually(t, "without the lock two are at work", func() bool { return without.Most() > 1 })
	require.ErrorIs(t, adaptertest.Receive(t, "a skipped run", j.Skipped), holdfast.ErrNotAcquired)
	require.Equal(t, 1, with.Most())
	require.Empty(t, j.Failed)
}

// TestOncePerPeriod: a short job runs on the machine that ticks first, and not on those whose ticks come
// later. Without HoldAtLeast it runs on each.
func TestOncePerPeriod(t *testing.T) {
	for name, opts := range map[string][]holdfast.Option{"": {holdfast.HoldAtLeast(time.Hour)}, "control": nil} {
		t.Run(name, func(t *testing.T) {
			var section adaptertest.Section
			j := adaptertest.NewJournal()
			job := cron.FuncJob(func() { section.Enter()() })
			for range 3 { // machines whose clocks differ
				cron.NewChain(once(t, j, opts...)).Then(job).Run()
				if name != "" {
					adaptertest.RequireFree(t, t.Name())
				}
			}
			if name == "" {
				require.Equal(t, 1, section.Runs())
				require.Len(t, j.Skipped, 2)
				adaptertest.PassTime(t, t.Name())
				start(t, tick, job, once(t, j, opts...)) // it runs in the next period
				adaptertest.Eventually(t, "the next run", func() bool { return section.Runs() == 2 })
				return
			}
			require.Equal(t, 3, section.Runs())
		})
	}
}

// TestLoss: a job with a context is told, the logger hears, and the lock of the one who came after it is
// not freed.
func TestLoss(t *testing.T) {
	j := adaptertest.NewJournal()
	work := adaptertest.NewWork()
	c := start(t, tick, holdfastcron.FuncJob(func(ctx context.Context) { _ = work.Do(ctx) }), once(t, j))
	work.Lost(t, t.Name())
	require.ErrorIs(t, adaptertest.Receive(t, "the line in the log", j.Failed), holdfast.ErrLost)
	<-c.Stop().Done()
	adaptertest.RequireStrangers(t, t.Name())
}

// TestOutage: the logger is told that Redis is away, and not that somebody has the lock.
func TestOutage(t *testing.T) {
	c := adaptertest.Unreachable(t)
	j := adaptertest.NewJournal()
	never := cron.FuncJob(func() { t.Error("the job runs") })
	holdfastcron.New(rlock.New(c, "a"), j)(never).Run()
	require.ErrorIs(t, adaptertest.Receive(t, "the line in the log", j.Failed), holdfast.ErrUnavailable)
	holdfastcron.New(nil, j)(never).Run()
	require.ErrorIs(t, adaptertest.Receive(t, "the line in the log", j.Failed), holdfast.ErrInvalid)
	require.Empty(t, j.Skipped)
}
