package adaptertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

// Tick is how often a [Machine] runs its job.
const Tick = 10 * time.Millisecond

// Machine runs a job again and again until the end of the test, as one machine of several does. With a journal
// it does so under the lock that has the name of the test, and the journal has what the package's logger or
// listener is told. stop waits for the end of a run.
type Machine func(t *testing.T, j *Journal, job func(ctx context.Context), opts ...holdfast.Option) (stop func())

// Cron tests the adapter to a package that runs jobs again and again.
func Cron(t *testing.T, machine Machine) {
	t.Run("never two", func(t *testing.T) { neverTwo(t, machine) })
	t.Run("once per period", func(t *testing.T) { oncePerPeriod(t, machine) })
	t.Run("loss", func(t *testing.T) { loss(t, machine) })
}

// neverTwo: a job that takes longer than its period runs on one machine at a time, and the runs of the others
// are skipped; without the lock on several.
func neverTwo(t *testing.T, machine Machine) {
	var with, without Section
	j := NewJournal()
	for range 3 {
		machine(t, j, func(ctx context.Context) { with.Linger(ctx, 5*Tick) })
		machine(t, nil, func(ctx context.Context) { without.Linger(ctx, time.Minute) })
	}
	Eventually(t, "the job runs", func() bool { return with.Runs() >= 10 })
	Eventually(t, "without the lock two are at work", func() bool { return without.Most() > 1 })
	require.ErrorIs(t, Receive(t, "a skipped run", j.Skipped), holdfast.ErrNotAcquired)
	require.Equal(t, 1, with.Most())
	require.Empty(t, j.Failed)
}

// oncePerPeriod: a short job runs on the machine that ticks first, and not on those whose ticks come later.
// That without HoldAtLeast it runs again is what neverTwo waits for.
func oncePerPeriod(t *testing.T, machine Machine) {
	var section Section
	j := NewJournal()
	for range 3 {
		machine(t, j, func(context.Context) { section.Enter()() }, holdfast.HoldAtLeast(time.Hour))
	}
	for period := range 3 {
		if period > 0 {
			passTime(t, t.Name())
		}
		Eventually(t, "it runs in this period", func() bool { return section.Runs() == period+1 })
		for len(j.Skipped) > 0 {
			_ = Receive(t, "an earlier one", j.Skipped)
		}
		for range 10 {
			_ = Receive(t, "a skipped run", j.Skipped)
		}
		require.Equal(t, period+1, section.Runs())
	}
}

// loss: a job with a context is told, the package hears, and the lock of the one who came after it is not freed.
func loss(t *testing.T, machine Machine) {
	j, work := NewJournal(), NewWork()
	stop := machine(t, j, func(ctx context.Context) { _ = work.Do(ctx) })
	work.Lost(t, t.Name())
	require.ErrorIs(t, Receive(t, "the error of the run", j.Failed), holdfast.ErrLost)
	stop()
	RequireStrangers(t, t.Name())
}
