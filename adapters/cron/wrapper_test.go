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
type often struct{}

func (often) Next(now time.Time) time.Time { return now.Add(adaptertest.Tick) }

func TestCron(t *testing.T) {
	adaptertest.Cron(t, func(t *testing.T, j *adaptertest.Journal, job func(context.Context),
		opts ...holdfast.Option) func() {
		chain := cron.NewChain()
		if j != nil {
			chain = cron.NewChain(holdfastcron.New(rlock.New(adaptertest.Client(t), t.Name()), j, opts...))
		}
		c := cron.New()
		c.Schedule(often{}, chain.Then(holdfastcron.FuncJob(job)))
		c.Start()
		stop := func() { <-c.Stop().Done() }
		t.Cleanup(stop)
		return stop
	})
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
