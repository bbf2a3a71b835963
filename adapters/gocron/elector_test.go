package holdfastgocron_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	holdfastgocron "github.com/holdfast-go/holdfast/adapters/gocron"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
)

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

// TestElectorLoss: a task is told that the leadership is lost. Its scheduler runs nothing until it leads
// again.
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
