package holdfastriver_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	holdfastriver "github.com/holdfast-go/holdfast/adapters/river"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/pgtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// soon is how long jobs are snoozed here.
const soon = 10 * time.Millisecond

// pay is a job.
type pay struct{}

func (pay) Kind() string { return "pay" }

// database is River's, new for each test.
type database struct {
	*testing.T
	driver *riverpgxv5.Driver
}

func newDatabase(t *testing.T, dsn string) *database {
	pool, err := pgxpool.New(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, kindtest.Err(pool.Exec(t.Context(), "DROP SCHEMA public CASCADE; CREATE SCHEMA public")))
	driver := riverpgxv5.New(pool)
	m, err := rivermigrate.New(driver, nil)
	require.NoError(t, err)
	require.NoError(t, kindtest.Err(m.Migrate(t.Context(), rivermigrate.DirectionUp, nil)))
	return &database{t, driver}
}

// process is one that works jobs.
type process struct {
	*river.Client[pgx.Tx]
	attempts <-chan error // of all jobs
}

func (d *database) process(work func(ctx context.Context) error, wrap ...rivertype.Middleware) *process {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, _ *river.Job[pay]) error { return work(ctx) }))
	attempts := make(chan error, 1000)
	hear := river.WorkerMiddlewareFunc(func(ctx context.Context, _ *rivertype.JobRow, inner func(context.Context) error) error {
		err := inner(ctx)
		adaptertest.Tell(attempts, err)
		return err
	})
	c, err := river.NewClient(d.driver, &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}}, Workers: workers,
		Middleware:        append([]rivertype.Middleware{hear}, wrap...),
		FetchCooldown:     soon,
		FetchPollInterval: 2 * soon,
		RetryPolicy:       again{},
		Logger:            slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	require.NoError(d, err)
	require.NoError(d, c.Start(context.Background()))
	d.Cleanup(func() { require.NoError(d, c.StopAndCancel(context.Background())) })
	return &process{c, attempts}
}

// again is a retry policy: soon.
type again struct{}

func (again) NextRetry(*rivertype.JobRow) time.Time { return time.Now().Add(soon) }

// insert adds a job and returns what can be seen of it.
func (p *process) insert(t *testing.T, opts *river.InsertOpts) (row func() *rivertype.JobRow) {
	job, err := p.Insert(t.Context(), pay{}, opts)
	require.NoError(t, err)
	return func() *rivertype.JobRow {
		row, err := p.JobGet(t.Context(), job.Job.ID)
		require.NoError(t, err)
		return row
	}
}

func completed(t *testing.T, row func() *rivertype.JobRow) {
	adaptertest.Eventually(t, "the job is done", func() bool { return row().State == rivertype.JobStateCompleted })
}

// locked is the middleware of one process: all jobs of a test have one lock.
func locked(t *testing.T, opts ...holdfast.Option) *holdfastriver.Middleware {
	c := adaptertest.Client(t)
	return holdfastriver.New(func(*rivertype.JobRow) holdfast.Locker { return rlock.New(c, t.Name()) }, soon, opts...)
}

func TestMiddleware(t *testing.T) {
	dsn := pgtest.Start(t)
	for name, test := range map[string]func(*database){
		"never two": neverTwo, "control": neverTwoControl, "loss": loss, "snooze": snooze, "errors": errorsPass,
	} {
		t.Run(name, func(t *testing.T) { test(newDatabase(t, dsn)) })
	}
}

// neverTwo: of two processes with four workers each one at a time works a job. All are done; waiting uses up no attempt.
func neverTwo(d *database) {
	var section adaptertest.Section
	work := func(ctx context.Context) error {
		section.Linger(ctx, 2*soon)
		return nil
	}
	p := d.process(work, locked(d.T))
	d.process(work, locked(d.T))
	var rows []func() *rivertype.JobRow
	for range 6 {
		rows = append(rows, p.insert(d.T, &river.InsertOpts{MaxAttempts: 1}))
	}
	for _, row := range rows {
		completed(d.T, row)
		require.Empty(d, row().Errors)
	}
	require.Equal(d, 6, section.Runs())
	require.Equal(d, 1, section.Most())
}

// neverTwoControl: without a lock two are worked at once.
func neverTwoControl(d *database) {
	var section adaptertest.Section
	none := holdfastriver.New(func(*rivertype.JobRow) holdfast.Locker { return nil }, 0)
	p := d.process(func(ctx context.Context) error {
		section.Linger(ctx, time.Minute)
		return nil
	}, none)
	p.insert(d.T, nil)
	p.insert(d.T, nil)
	adaptertest.Eventually(d.T, "two at once", func() bool { return section.Most() > 1 })
}

// loss: the worker is told, the job has failed and is worked again, and the lock of the one who came after it is not freed.
func loss(d *database) {
	work := adaptertest.NewWork()
	var later atomic.Bool
	p := d.process(func(ctx context.Context) error {
		if later.Swap(true) {
			return nil
		}
		return work.Do(ctx)
	}, locked(d.T))
	row := p.insert(d.T, nil)
	work.Lost(d.T, d.Name())
	require.ErrorIs(d, adaptertest.Receive(d.T, "the error of the job", p.attempts), holdfast.ErrLost)
	require.ErrorIs(d, adaptertest.Receive(d.T, "a second attempt", p.attempts), holdfast.ErrNotAcquired)
	adaptertest.RequireStrangers(d.T, d.Name())
	adaptertest.GiveBack(d.T, d.Name())
	completed(d.T, row)
	require.Len(d, row().Errors, 1)
	require.Contains(d, row().Errors[0].Error, "lost")
}

// snooze: the middlewares outside see why a job is snoozed.
func snooze(d *database) {
	other := kindtest.Lock(d.T, rlock.New(adaptertest.Client(d.T), d.Name()))
	p := d.process(func(context.Context) error { return nil }, locked(d.T))
	row := p.insert(d.T, &river.InsertOpts{MaxAttempts: 1})
	for range 3 {
		err := adaptertest.Receive(d.T, "an attempt", p.attempts)
		require.ErrorIs(d, err, holdfast.ErrNotAcquired)
		var snoozed *river.JobSnoozeError
		require.ErrorAs(d, err, &snoozed)
		require.Equal(d, soon, snoozed.Duration)
	}
	require.NoError(d, other.Unlock(d.Context()))
	completed(d.T, row)
}

// errorsPass: what a worker returns is what River hears. The lock is given back.
func errorsPass(d *database) {
	broken := errors.New("out of paper")
	p := d.process(func(context.Context) error { return broken }, locked(d.T))
	row := p.insert(d.T, &river.InsertOpts{MaxAttempts: 1})
	require.Equal(d, broken, adaptertest.Receive(d.T, "the error", p.attempts))
	adaptertest.RequireFree(d.T, d.Name())
	adaptertest.Eventually(d.T, "it is discarded", func() bool { return row().State == rivertype.JobStateDiscarded })
}

// TestNoFunction: a job whose lock nobody makes is not worked.
func TestNoFunction(t *testing.T) {
	err := holdfastriver.New(nil, 0).Work(t.Context(), &rivertype.JobRow{}, func(context.Context) error {
		t.Error("the job was worked")
		return nil
	})
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	require.ErrorContains(t, err, "locks is nil; pass New a function")
}
