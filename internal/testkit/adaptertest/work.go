package adaptertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// Work is a job that goes on until its context ends.
type Work struct {
	began chan struct{}
	ended chan error
}

// NewWork makes one that nobody does yet.
func NewWork() *Work { return &Work{began: make(chan struct{}, 10), ended: make(chan error, 10)} }

// Do does the work. It returns nil, as a job that does not notice what its end means.
func (w *Work) Do(ctx context.Context) error {
	w.began <- struct{}{}
	<-ctx.Done()
	w.ended <- context.Cause(ctx)
	return nil
}

// Begun waits until somebody does it.
func (w *Work) Begun(t *testing.T) {
	Receive(t, "the job", w.began)
}

// Ended waits until the context of who does it has ended, and returns why.
func (w *Work) Ended(t *testing.T) error {
	return Receive(t, "the end of the job's context", w.ended)
}

// Lost waits until somebody does it, has him lose the lock, and demands that he is told.
func (w *Work) Lost(t *testing.T, name string) {
	w.Begun(t)
	Lose(t, name)
	require.ErrorIs(t, w.Ended(t), holdfast.ErrLost)
}

// Unreachable makes a participant whose server is gone.
func Unreachable(t *testing.T) *holdfast.Client {
	srv := redistest.Start(t)
	c, err := holdfast.New(srv.Client(t), &holdfast.Options{RetryBudget: 50 * time.Millisecond})
	require.NoError(t, err)
	redistest.CloseAtEnd(t, c)
	srv.Kill()
	return c
}

// Journal is a logger of cron packages whose lines a test waits for.
type Journal struct {
	Skipped chan error // what Info said
	Failed  chan error // what Error said
}

// NewJournal makes an empty one.
func NewJournal() *Journal {
	return &Journal{Skipped: make(chan error, 100), Failed: make(chan error, 100)}
}

// Info notes why a run was skipped, and no line that does not say why.
func (j *Journal) Info(_ string, keysAndValues ...any) {
	for _, v := range keysAndValues {
		if err, ok := v.(error); ok {
			Tell(j.Skipped, err)
		}
	}
}

// Error notes an error.
func (j *Journal) Error(err error, _ string, _ ...any) { Tell(j.Failed, err) }

// Tell sends an error to a test, or drops it when nobody asks for so many.
func Tell(c chan<- error, err error) {
	select {
	case c <- err:
	default:
	}
}

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
