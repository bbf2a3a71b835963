package holdfastasynq_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	holdfastasynq "github.com/holdfast-go/holdfast/adapters/asynq"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// soon is how often a server here looks for tasks.
const soon = 10 * time.Millisecond

func conn(t *testing.T) asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Addr: redistest.Shared(t).Addr()}
}

// serve starts a server of the test's queue, which ends with the test. Each error of a task is sent.
func serve(t *testing.T, handler asynq.HandlerFunc, wrap asynq.MiddlewareFunc, change ...func(*asynq.Config)) <-chan error {
	failed := make(chan error, 1000)
	c := asynq.Config{
		Concurrency: 4, Queues: map[string]int{t.Name(): 1}, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: soon, DelayedTaskCheckInterval: soon, ShutdownTimeout: time.Minute,
		IsFailure:      holdfastasynq.IsFailure,
		RetryDelayFunc: holdfastasynq.RetryDelay(soon, func(int, error, *asynq.Task) time.Duration { return soon }),
		ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) {
			adaptertest.Tell(failed, err)
		}),
	}
	for _, f := range change {
		f(&c)
	}
	mux := asynq.NewServeMux()
	if wrap != nil {
		mux.Use(wrap)
	}
	mux.Handle("pay", handler)
	srv := asynq.NewServer(conn(t), c)
	require.NoError(t, srv.Start(mux))
	t.Cleanup(srv.Shutdown)
	return failed
}

// locked is the middleware of one process: all tasks of a test have one lock.
func locked(t *testing.T, opts ...holdfast.Option) asynq.MiddlewareFunc {
	c := adaptertest.Client(t)
	return holdfastasynq.New(func(*asynq.Task) holdfast.Locker { return rlock.New(c, t.Name()) }, opts...)
}

// enqueue adds a task and returns what can be seen of it.
func enqueue(t *testing.T, opts ...asynq.Option) (info func() *asynq.TaskInfo) {
	c, i := asynq.NewClient(conn(t)), asynq.NewInspector(conn(t))
	t.Cleanup(func() { require.NoError(t, errors.Join(c.Close(), i.Close())) })
	opts = append([]asynq.Option{asynq.Queue(t.Name()), asynq.Retention(time.Hour)}, opts...)
	task, err := c.Enqueue(asynq.NewTask("pay", nil), opts...)
	require.NoError(t, err)
	return func() *asynq.TaskInfo {
		info, err := i.GetTaskInfo(t.Name(), task.ID)
		require.NoError(t, err)
		return info
	}
}

func completed(t *testing.T, info func() *asynq.TaskInfo) {
	adaptertest.Eventually(t, "the task is done", func() bool { return info().State == asynq.TaskStateCompleted })
}

// TestNeverTwo: of two servers with four workers each one at a time processes a task of the lock. All are done without a retry.
func TestNeverTwo(t *testing.T) {
	var section adaptertest.Section
	handler := func(ctx context.Context, _ *asynq.Task) error {
		section.Linger(ctx, 2*soon)
		return nil
	}
	serve(t, handler, locked(t))
	serve(t, handler, locked(t))
	var infos []func() *asynq.TaskInfo
	for range 8 {
		infos = append(infos, enqueue(t))
	}
	for _, info := range infos {
		completed(t, info)
		require.Zero(t, info().Retried)
	}
	require.Equal(t, 8, section.Runs())
	require.Equal(t, 1, section.Most())
}

// TestNeverTwoControl: without the middleware, and for tasks without a lock, two at a time.
func TestNeverTwoControl(t *testing.T) {
	none := holdfastasynq.New(func(*asynq.Task) holdfast.Locker { return nil })
	for name, wrap := range map[string]asynq.MiddlewareFunc{"no middleware": nil, "no lock": none} {
		t.Run(name, func(t *testing.T) {
			var section adaptertest.Section
			serve(t, func(ctx context.Context, _ *asynq.Task) error {
				section.Linger(ctx, time.Minute)
				return nil
			}, wrap)
			enqueue(t)
			enqueue(t)
			adaptertest.Eventually(t, "two at once", func() bool { return section.Most() > 1 })
		})
	}
}

// TestLoss: the handler is told, its task fails and is processed again, and the lock of the next holder is not freed.
func TestLoss(t *testing.T) {
	work := adaptertest.NewWork()
	first := true
	failed := serve(t, func(ctx context.Context, _ *asynq.Task) error {
		if !first {
			return nil
		}
		first = false
		return work.Do(ctx)
	}, locked(t))
	info := enqueue(t)
	work.Lost(t, t.Name())
	require.ErrorIs(t, adaptertest.Receive(t, "the error of the task", failed), holdfast.ErrLost)
	adaptertest.RequireStrangers(t, t.Name())
	require.ErrorIs(t, adaptertest.Receive(t, "a second attempt", failed), holdfastasynq.ErrNotRun)
	adaptertest.GiveBack(t, t.Name())
	completed(t, info)
	require.Equal(t, 1, info().Retried)
}

// TestNotRun: a task that cannot have its lock has not failed. Without IsFailure it has.
func TestNotRun(t *testing.T) {
	for name, change := range map[string]func(*asynq.Config){
		"":        func(*asynq.Config) {},
		"control": func(c *asynq.Config) { c.IsFailure = nil },
	} {
		t.Run(name, func(t *testing.T) {
			other := kindtest.Lock(t, rlock.New(adaptertest.Client(t), t.Name()))
			failed := serve(t, func(context.Context, *asynq.Task) error { return nil }, locked(t), change)
			info := enqueue(t)
			for range 3 {
				err := adaptertest.Receive(t, "an attempt", failed)
				require.ErrorIs(t, err, holdfastasynq.ErrNotRun)
				require.ErrorIs(t, err, holdfast.ErrNotAcquired)
			}
			if name == "" {
				require.Zero(t, info().Retried)
			} else {
				adaptertest.Eventually(t, "it has failed", func() bool { return info().Retried >= 2 })
			}
			require.NoError(t, other.Unlock(t.Context()))
			completed(t, info)
		})
	}
}

// TestLastAttempt: a task that asynq would archive waits for its lock. With Wait(0) for all attempts it is archived, never run.
func TestLastAttempt(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	for name, opts := range map[string][]holdfast.Option{"": nil, "control": {holdfast.Wait(0)}} {
		t.Run(name, func(t *testing.T) {
			other := kindtest.Lock(t, rlock.New(adaptertest.Client(t), t.Name()))
			failed := serve(t, func(context.Context, *asynq.Task) error { return nil }, locked(t, opts...))
			info := enqueue(t, asynq.MaxRetry(0))
			if name != "" {
				adaptertest.Eventually(t, "it is archived", func() bool { return info().State == asynq.TaskStateArchived })
				require.NoError(t, other.Unlock(t.Context()))
				return
			}
			channel := "redisson_lock__channel:{" + t.Name() + "}"
			adaptertest.Eventually(t, "it waits", func() bool { return rdb.PubSubNumSub(t.Context(), channel).Val()[channel] > 0 })
			require.NoError(t, other.Unlock(t.Context()))
			completed(t, info)
			require.Empty(t, failed)
		})
	}
}

// TestErrors: what a handler returns, or panics with, is what asynq hears. The lock is given back.
func TestErrors(t *testing.T) {
	broken := errors.New("out of paper")
	panics := false
	failed := serve(t, func(context.Context, *asynq.Task) error {
		if panics {
			panic("ink")
		}
		panics = true
		return broken
	}, locked(t))
	enqueue(t, asynq.MaxRetry(1))
	require.Equal(t, broken, adaptertest.Receive(t, "the error", failed))
	require.ErrorContains(t, adaptertest.Receive(t, "the panic", failed), "ink")
	adaptertest.RequireFree(t, t.Name())
	require.True(t, holdfastasynq.IsFailure(broken))
	require.False(t, holdfastasynq.IsFailure(nil))
}

// TestNoFunction: a task whose lock nobody makes is not processed.
func TestNoFunction(t *testing.T) {
	err := holdfastasynq.New(nil)(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		t.Error("the task was processed")
		return nil
	})).ProcessTask(t.Context(), asynq.NewTask("pay", nil))
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	require.ErrorContains(t, err, "locks is nil; pass New a function")
}

// TestRetryDelay: without a function of one's own a task that failed is repeated as asynq repeats it.
func TestRetryDelay(t *testing.T) {
	delay := holdfastasynq.RetryDelay(time.Minute, nil)
	task := asynq.NewTask("pay", nil)
	require.Equal(t, time.Minute, delay(1, holdfastasynq.ErrNotRun, task))
	require.NotPanics(t, func() { require.Positive(t, delay(1, errors.New("out of paper"), task)) })
}

// counted is a real scheduler in a section: between Start and the end of Shutdown.
type counted struct {
	*asynq.Scheduler
	section *adaptertest.Section
	leave   func()
}

func (c *counted) Start() error {
	c.leave = c.section.Enter()
	return c.Scheduler.Start()
}

func (c *counted) Shutdown() {
	c.Scheduler.Shutdown()
	c.leave()
}

// process is one that runs the scheduler, if it leads.
type process struct {
	enqueued chan struct{}
	stop     func() error
}

func newProcess(t *testing.T, section *adaptertest.Section) *process {
	p := &process{enqueued: make(chan struct{}, 100)}
	e := election.New(adaptertest.Client(t), t.Name())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	opt := conn(t)
	go func() {
		done <- holdfastasynq.RunScheduler(ctx, e, "me", func() (holdfastasynq.Scheduler, error) {
			s := asynq.NewScheduler(opt, &asynq.SchedulerOpts{
				LogLevel: asynq.FatalLevel,
				PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) {
					if err == nil {
						p.enqueued <- struct{}{}
					}
				},
			})
			_, err := s.Register("@every 1s", asynq.NewTask("report", nil), asynq.Queue(t.Name()))
			return &counted{Scheduler: s, section: section}, err
		})
	}()
	p.stop = func() error {
		cancel()
		err := adaptertest.Receive(t, "the end of RunScheduler", done)
		done <- err // for whoever asks again
		return err
	}
	t.Cleanup(func() { _ = p.stop() })
	return p
}

// TestScheduler: one process at a time has a scheduler, and another one has it when that one stops. When
// the leadership is lost the scheduler is shut down, and a new one made in the next term.
func TestScheduler(t *testing.T) {
	var section adaptertest.Section
	a := newProcess(t, &section)
	adaptertest.Receive(t, "a task", a.enqueued)
	b := newProcess(t, &section)
	require.ErrorIs(t, a.stop(), context.Canceled)
	adaptertest.Receive(t, "a task of the next leader", b.enqueued)
	require.Equal(t, 2, section.Runs())

	adaptertest.Lose(t, t.Name())
	adaptertest.Eventually(t, "it is shut down", func() bool { return section.Inside() == 0 })
	adaptertest.RequireStrangers(t, t.Name())
	for len(b.enqueued) > 0 {
		<-b.enqueued
	}
	adaptertest.GiveBack(t, t.Name())
	adaptertest.Receive(t, "a task of the next term", b.enqueued)
	require.Equal(t, 3, section.Runs())
	require.Equal(t, 1, section.Most())
}

// TestSchedulerErrors: a scheduler that cannot be made ends the run, and the leadership.
func TestSchedulerErrors(t *testing.T) {
	broken := errors.New("out of paper")
	e := election.New(adaptertest.Client(t), t.Name())
	err := holdfastasynq.RunScheduler(t.Context(), e, "me", func() (holdfastasynq.Scheduler, error) { return nil, broken })
	require.ErrorIs(t, err, broken)

	stopped := asynq.NewScheduler(conn(t), &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
	require.NoError(t, stopped.Start())
	stopped.Shutdown()
	err = holdfastasynq.RunScheduler(t.Context(), e, "me", func() (holdfastasynq.Scheduler, error) { return stopped, nil })
	require.ErrorContains(t, err, "already been stopped")
	adaptertest.RequireFree(t, t.Name())

	none := func() (holdfastasynq.Scheduler, error) { return nil, nil }
	for want, run := range map[string]func() error{
		"newScheduler is nil; pass a function": func() error { return holdfastasynq.RunScheduler(t.Context(), e, "me", nil) },
		"newScheduler made none; return":       func() error { return holdfastasynq.RunScheduler(t.Context(), e, "me", none) },
		"make one with":                        func() error { return holdfastasynq.RunScheduler(t.Context(), nil, "me", none) },
	} {
		require.NotPanics(t, func() { err = run() })
		require.ErrorIs(t, err, holdfast.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
}
