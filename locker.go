package holdfast

import (
	"context"
	"time"
)

// Locker is what every kind of lock can do.
type Locker interface {
	// Name is the name of the lock in Redis.
	Name() string
	// Lock waits until the lock is granted, ctx ends or the time of [Wait] is over.
	Lock(ctx context.Context, opts ...Option) (*Hold, error)
	// TryLock returns [ErrNotAcquired] at once if another owner holds the lock. It waits for
	// nobody, so it may pass those who wait. Where the kind is fair, it is refused while anybody
	// waits.
	//
	// A server that does not answer is asked once, within go-redis's DialTimeout and ReadTimeout,
	// and for no longer than [Options.RetryBudget] and one ReadTimeout. It is asked once more only
	// if an idle connection was found closed.
	TryLock(ctx context.Context, opts ...Option) (*Hold, error)
}

// State is a lock as the server sees it at one moment. It is old news when it arrives: do not
// decide by it whether a lock is held, but ask the [Hold].
type State struct {
	Owner string // "<client uuid>:h<number>", Redisson's without the h; empty: free
	// hold count of Owner; where replies are lost, it may be that of before until the next
	// operation
	Count     int
	Remaining time.Duration // lease left; negative if the key has none, which only something foreign can cause
	// last fencing token granted, or reserved for a client that hands the lock on; 0: none known
	Token   uint64
	Waiters int // in the visible queue; -1 where the kind keeps none
}
