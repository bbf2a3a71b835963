package adapt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast"
)

// Run calls job under the context of the hold while l is held by a fresh owner, and unlocks, even if
// job panics. ran says that job was called. If it was not, err is that of Lock.
//
// Otherwise err is what job returned, and is [holdfast.ErrLost] too if the lock was lost on the way, or
// [holdfast.ErrClosed] if the client was closed, which gives the lock back: the job may then have run at
// the same time as another. No other error of Unlock is returned. If Redis does not answer to an Unlock,
// the lock was held for as long as the job ran, and a job that is done must not be done again for that.
// The client logs it, and repeats the release in the background.
func Run(ctx context.Context, l holdfast.Locker, job func(context.Context) error,
	opts ...holdfast.Option) (ran bool, err error) {
	var own error
	err = holdfast.Do(holdfast.WithOwner(ctx), l, func(ctx context.Context) error {
		ran = true
		own = job(ctx)
		return own
	}, opts...)
	switch {
	case !ran, errors.Is(err, holdfast.ErrLost), errors.Is(err, holdfast.ErrClosed):
		return ran, err
	}
	return ran, own
}

// Lock takes l for a fresh owner, for a library that unlocks in another call.
func Lock(ctx context.Context, l holdfast.Locker, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if l == nil {
		return nil, fmt.Errorf("%w: there is no lock to take; make one with rlock.New", holdfast.ErrInvalid)
	}
	return l.Lock(holdfast.WithOwner(ctx), opts...)
}

// LockOf is the lock that a user's function makes, nil if none is needed. A function that is nil is bad input, and not
// "none is needed": what it was to guard must not run unguarded.
func LockOf[T any](locks func(of T) holdfast.Locker, of T) (holdfast.Locker, error) {
	if locks == nil {
		return nil, fmt.Errorf("%w: locks is nil; pass New a function that makes a lock", holdfast.ErrInvalid)
	}
	return locks(of), nil
}

// Defaults are an adapter's own options, which those of its user override.
func Defaults(users []holdfast.Option, own ...holdfast.Option) []holdfast.Option {
	return slices.Concat(own, users)
}
