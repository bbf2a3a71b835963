package holdfastasynq_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	holdfastasynq "github.com/holdfast-go/holdfast/adapters/asynq"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
)

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
