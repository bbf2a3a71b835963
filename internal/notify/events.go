package notify

import (
	"context"
	"time"
)

// Observer is holdfast.Observer, and the events are those of package holdfast, which documents them. (Package holdfast
// has its own types of the same shape: an alias would show users a package that they cannot import.)
type Observer struct {
	Waiting    func(ctx context.Context, w WaitEvent) context.Context
	Granted    func(ctx context.Context, g GrantEvent)
	Refused    func(ctx context.Context, r RefusalEvent)
	Ended      func(ctx context.Context, e EndEvent)
	Renewed    func(r RenewalEvent)
	Sent       func(s ScriptEvent)
	Subscribed func(s SubscriptionEvent)
	Dropped    func(events int)

	SelfBlocked func(s SelfBlockEvent)
	Deadlocked  func(d DeadlockEvent)
}

// WaitEvent is the beginning of a Lock or TryLock.
type WaitEvent struct {
	Kind, Name string
	Once       bool
	Bounded    bool
}

// How a hold was granted.
type How uint8

// The ways to a grant, with the numbers that package holdfast has.
const (
	Asked How = iota + 1
	HandedOn
	FromKept
	Reentered
)

// GrantEvent is a call that was granted the lock.
type GrantEvent struct {
	Kind, Name string
	Owner      string
	Token      uint64
	Count      int
	How        How
	Waited     time.Duration
	Contended  bool
}

// RefusalEvent is a call that ended without the lock.
type RefusalEvent struct {
	Kind, Name string
	Waited     time.Duration
	Err        error
}

// EndEvent is the end of a hold.
type EndEvent struct {
	Kind, Name string
	Owner      string
	Token      uint64
	Count      int
	Reason     error
	Held       time.Duration
	Err        error
}

// RenewalEvent is one renewal of one lease, or an attempt that failed.
type RenewalEvent struct {
	Kind, Name string
	Owner      string
	Lease      time.Duration
	Left       time.Duration
	Err        error
}

// ScriptEvent is one script that was sent.
type ScriptEvent struct {
	Script  string
	Took    time.Duration
	Repeats int
	Err     error
}

// SubscriptionEvent is the loss or the return of a connection that wakes waiters.
type SubscriptionEvent struct {
	Server string
	Up     bool
	Err    error
}

// SelfBlockEvent is a wait for a lock that the waiting client holds itself.
type SelfBlockEvent struct {
	Kind, Name       string
	Waited           time.Duration
	Waits            int
	Owner            string
	Token            uint64
	Held             time.Duration
	Sure             bool
	Waiting, Holding string
}

// DeadlockEvent is a circle of waits, none of which ends by itself, unless it has a limit.
type DeadlockEvent struct {
	Kind, Name string
	Waited     time.Duration
	Where      string
	Circle     []DeadlockedWait
}

// DeadlockedWait is one wait of a circle.
type DeadlockedWait struct {
	Client     string
	Label      string
	Kind, Name string
	Waited     time.Duration
	Has        string
	Owner      string
	Token      uint64
}
