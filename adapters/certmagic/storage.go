package holdfastcertmagic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/adapt"
)

// Storage is a certmagic.Storage with other locks. Make one with [New]. All methods of locks are safe
// for concurrent use.
type Storage struct {
	certmagic.Storage
	locks func(name string) holdfast.Locker
	opts  []holdfast.Option
	holds adapt.Holds[string]
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// New makes a Storage that keeps things where s does. locks makes a lock of any kind from certmagic's
// name for it. Put a prefix before the name. opts are for each acquisition.
func New(s certmagic.Storage, locks func(name string) holdfast.Locker, opts ...holdfast.Option) *Storage {
	return &Storage{Storage: s, locks: locks, opts: opts}
}

// Lock waits until the lock is granted or ctx ends.
func (s *Storage) Lock(ctx context.Context, name string) error { return s.acquire(ctx, name, s.opts) }

// TryLock returns false if somebody else has the lock.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	err := s.acquire(ctx, name, adapt.Defaults([]holdfast.Option{holdfast.Wait(0)}, s.opts...))
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return false, nil
	}
	return err == nil, err
}

func (s *Storage) acquire(ctx context.Context, name string, opts []holdfast.Option) error {
	if s.locks == nil {
		return fmt.Errorf("%w: locks is nil; pass New a function that makes a lock", holdfast.ErrInvalid)
	}
	hold, err := adapt.Lock(ctx, s.locks(name), opts...)
	if err != nil {
		return err
	}
	s.holds.Add(name, hold)
	return nil
}

// Unlock gives the lock back. A lock that was lost is not this process's to give back, and that is no
// error: certmagic would try again when the process ends. The client has logged the loss.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	hold := s.holds.Take(name)
	if hold == nil {
		return fmt.Errorf("holdfastcertmagic: %q is not locked here: %w", name, holdfast.ErrReleased)
	}
	if err := hold.Unlock(ctx); !errors.Is(err, holdfast.ErrLost) {
		return err
	}
	return nil
}

// RenewLockLease is called by certmagic before each attempt. While the lock is held there is nothing to
// do: the lease is renewed all the time, however long the attempt takes. If the lock was lost, it is
// taken anew, once. That is as good, because certmagic looks next whether another process has obtained
// the certificate. (Refused: to return an error for good. Certmagic would repeat it for 30 days.) If
// somebody else has the lock, errors.Is is true for [holdfast.ErrLost] and [holdfast.ErrNotAcquired].
//
// Two callers of one process, of whom the first lost the lock to the second, are told apart by nothing.
// Both go on. (Refused: an error, which would stop the one who has the lock, too, and for as long as the
// other one tries.)
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	hold, oldest := s.holds.Newest(name), s.holds.Oldest(name)
	switch {
	case hold == nil: // to take it would leave it to nobody
		return fmt.Errorf("holdfastcertmagic: %q is not locked here: %w", name, holdfast.ErrReleased)
	case hold.Deadline().After(time.Now()): // the hold's context does not say so: it ends with that of Lock
		return nil
	}
	if err := s.acquire(ctx, name, adapt.Defaults([]holdfast.Option{holdfast.Wait(0)}, s.opts...)); err != nil {
		return fmt.Errorf("holdfastcertmagic: %q is not locked here any more: %w; %w", name, holdfast.ErrLost, err)
	}
	s.holds.Remove(name, oldest)
	return nil
}
