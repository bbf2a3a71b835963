package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
)

// Do calls fn under the hold's context while l is held, and then unlocks, even if fn panics. It
// returns nil only if the lock was held from the start of fn to its end and fn returned nil. If the
// hold was lost on the way, errors.Is is true for [ErrLost] as well as for fn's own error. fn may
// then have run at the same time as another holder. [Hold.Unlock] says what "held" means for a lock
// that is handed off within the process. With [ReleaseOnError] a fn that fails ends [HoldAtLeast] too.
//
// An error does not say that fn has not run. If Redis does not answer to the unlock after fn, Do
// returns [ErrUnavailable], [ErrUncertain], or both, in an [Error] whose Op is "unlock". If fn takes
// locks itself, its errors may look the same; then let fn set a variable. The unlock takes up to
// [Options.RetryBudget], also if ctx has ended.
func Do(ctx context.Context, l Locker, fn func(context.Context) error, opts ...Option) (err error) {
	if l == nil {
		return errNoLocker
	}
	if fn == nil {
		return errNoFunction
	}
	hold, err := l.Lock(ctx, opts...)
	if err != nil {
		return err
	}
	failed := true // also if fn panics
	defer func() {
		unlock := hold.Unlock
		if failed && (*engine.Hold)(hold).ReleasesOnError() {
			unlock = hold.UnlockNow
		}
		err = outcome(err, unlock(ctx))
	}()
	err = fn(hold.Context())
	failed = err != nil
	return err
}

// DoValue is [Do] for a function that returns a value. The value is that of fn, also beside an
// error of fn or of Unlock. It is the zero value if fn did not run.
func DoValue[T any](ctx context.Context, l Locker, fn func(context.Context) (T, error), opts ...Option) (value T, err error) {
	if fn == nil {
		return value, errNoFunction
	}
	err = Do(ctx, l, func(ctx context.Context) (err error) {
		value, err = fn(ctx)
		return err
	}, opts...)
	return value, err
}

var (
	errNoLocker   = fmt.Errorf("%w: locker is nil; make one with rlock.New", ErrInvalid)
	errNoFunction = fmt.Errorf("%w: fn is nil; pass the function to run under the lock", ErrInvalid)
)

// outcome joins the errors of a function and of the unlock after it. A loss that the function has reported is not told
// twice.
func outcome(err, unlock error) error {
	var e *Error
	if errors.Is(err, ErrLost) && errors.As(unlock, &e) && errors.Is(unlock, ErrLost) && !errors.Is(unlock, ErrUncertain) &&
		!errors.Is(unlock, ErrUnavailable) {
		return &Error{Op: e.Op, Kind: e.Kind, Name: e.Name, Err: err}
	}
	return errs.Join(err, unlock)
}

// SyncLocker makes a sync.Locker of l, for code that takes one. Its Lock and Unlock cannot return
// errors, so they panic if ctx ended, Redis did not answer, or the lock was lost. A loss in between
// goes unnoticed until Unlock; prefer the [Hold].
func SyncLocker(ctx context.Context, l Locker) sync.Locker {
	return &syncLocker{ctx: ctx, locker: l}
}

type syncLocker struct {
	ctx    context.Context
	locker Locker

	mu    sync.Mutex // guards holds; not held while waiting for the lock
	holds []*Hold    // a stack: more than one only if ctx carries an owner
}

func (s *syncLocker) Lock() {
	if s.locker == nil {
		panic(errNoLocker)
	}
	hold, err := s.locker.Lock(s.ctx)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds = append(s.holds, hold)
}

func (s *syncLocker) Unlock() {
	s.mu.Lock()
	n := len(s.holds)
	if n == 0 {
		s.mu.Unlock()
		name := "of nil"
		if s.locker != nil {
			name = s.locker.Name()
		}
		panic("holdfast: unlock of unlocked lock " + name)
	}
	hold := s.holds[n-1]
	s.holds = s.holds[:n-1]
	s.mu.Unlock()
	if err := hold.Unlock(s.ctx); err != nil {
		panic(err)
	}
}
