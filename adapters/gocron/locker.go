package holdfastgocron

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/adapt"
)

// Locker is a gocron.Locker, for gocron.WithDistributedLocker and gocron.WithDistributedJobLocker.
// Make one with [NewLocker]. All methods are safe for concurrent use.
type Locker struct {
	locks func(name string) holdfast.Locker
	opts  []holdfast.Option
	// held are the holds of runs whose task has not begun, by the name of the job. Runs of one job on
	// this Locker come one after another, unless a lock is lost.
	held adapt.Holds[string]
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker makes a Locker. locks makes the lock of a job from its name. Put a prefix before the
// name, and take any kind of lock. opts are for each run; give [holdfast.HoldAtLeast]. With
// [holdfast.Wait] a run waits for the lock instead of being skipped, and then runs once more.
func NewLocker(locks func(name string) holdfast.Locker, opts ...holdfast.Option) *Locker {
	return &Locker{locks: locks, opts: adapt.Defaults(opts, holdfast.Wait(0))}
}

// Lock is called by gocron before each run.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	if l.locks == nil {
		return nil, fmt.Errorf("%w: locks is nil; pass NewLocker a function that makes a lock", holdfast.ErrInvalid)
	}
	hold, err := adapt.Lock(ctx, l.locks(key), l.opts...)
	if err != nil {
		return nil, err
	}
	l.held.Add(key, hold)
	return &run{locker: l, key: key, hold: hold}, nil
}

// run is the lock of one run.
type run struct {
	locker *Locker
	key    string
	hold   *holdfast.Hold
}

// Unlock is called by gocron after the run. The context that it passes has ended if the scheduler
// shuts down; the release is sent all the same.
func (r *run) Unlock(ctx context.Context) error {
	r.locker.held.Remove(r.key, r.hold)
	return r.hold.Unlock(ctx)
}

// ErrNotLocked says that a task was run without the lock of its name.
var ErrNotLocked = errors.New("holdfastgocron: no lock of this name is held")

// errNoTask is for the run: Task returns nothing but a function, and gocron sees no nil in that.
var errNoTask = fmt.Errorf("%w: fn is nil; pass Task the function to run", holdfast.ErrInvalid)

// Task makes a task of fn whose context ends when the lock is lost, with [holdfast.ErrLost] as its
// cause, and when gocron ends the job. The context carries the fencing token. If the lock was lost,
// the task's error is ErrLost too.
//
// name is that of the job, as given to gocron.WithName. If they differ, or the job has no locker, fn
// is not called, and the error of the run is [ErrNotLocked]. Runs of one job that overlap, as they may
// with a semaphore of several permits, may have each other's holds, and be told of each other's losses.
func (l *Locker) Task(name string, fn func(ctx context.Context) error) func(ctx context.Context) error {
	return func(context.Context) error { // the hold's context derives from it
		if fn == nil {
			return errNoTask
		}
		hold := l.held.Take(name)
		if hold == nil {
			return fmt.Errorf("%w: %q; pass that name to gocron.WithName, and this Locker to the scheduler",
				ErrNotLocked, name)
		}
		return told(hold.Context(), fn)
	}
}

// told calls fn, and adds to its error that the lock was lost.
func told(ctx context.Context, fn func(ctx context.Context) error) error {
	err := fn(ctx)
	cause := context.Cause(ctx)
	switch {
	case !errors.Is(cause, holdfast.ErrLost), errors.Is(err, holdfast.ErrLost):
		return err
	case err == nil:
		return cause
	}
	return fmt.Errorf("%w; %w", cause, err)
}
