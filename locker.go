package holdfast

import (
	"context"
	"time"
)

// Locker has the methods that every kind of lock has.
type Locker interface {
	// Name is the name of the lock in Redis.
	Name() string
	// Lock waits until the lock is granted, ctx ends or the time of [Wait] is over.
	Lock(ctx context.Context, opts ...Option) (*Hold, error)
	// TryLock returns [ErrNotAcquired] at once if another owner holds the lock. It does not queue,
	// so it may overtake waiters. With a fair kind, TryLock is refused while anybody waits.
	//
	// TryLock asks a server that does not answer only once, within go-redis's DialTimeout and
	// ReadTimeout, and for no longer than ctx, [Wait] and [Options.RetryBudget] allow. It asks a
	// second time only if an idle connection turned out to be closed.
	TryLock(ctx context.Context, opts ...Option) (*Hold, error)
}

// State is a lock as the server sees it at one moment. It may be out of date when it arrives. To
// decide whether a lock is held, ask the [Hold] and not the State.
type State struct {
	Owner string // "<client uuid>:h<number>", Redisson's without the h; empty: free
	// how often Owner has entered; after a lost reply, the number may be the earlier one until the
	// next operation
	Count     int
	Remaining time.Duration // lease left; negative if the key has none, which no lock of this library causes
	// the last fencing token that was granted, or reserved by a client that hands the lock off; 0:
	// none known
	Token   uint64
	Waiters int // in the queue at the server; -1 if the kind keeps none
}

// Holder is one of several holders of a lock, as the server sees it at one moment.
type Holder struct {
	Owner     string        // as in [State]
	Count     int           // how often it has entered, or how many permits it has
	Remaining time.Duration // lease left
}
