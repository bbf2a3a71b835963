package event

import "time"

// Wait is the beginning of a Lock or TryLock.
type Wait struct {
	Kind, Name string // as in holdfast.Error
	Once       bool   // it does not wait for other holders
	Bounded    bool   // it ends by itself: holdfast.Wait was given, or its context has a deadline
}

// How says how a hold was granted.
type How uint8

// The ways to a grant.
const (
	Asked     How = iota + 1 // a server granted the lock
	HandedOn                 // the last holder of this client, or of a fair queue, handed it on
	FromKept                 // the client had kept it, see rlock.Keep
	Reentered                // the owner had it already
)

// String is the label of metrics: asked, handed_on, kept or reentered.
func (h How) String() string {
	switch h {
	case Asked:
		return "asked"
	case HandedOn:
		return "handed_on"
	case FromKept:
		return "kept"
	case Reentered:
		return "reentered"
	}
	return "unknown"
}

// Grant is a call that has the lock.
type Grant struct {
	Kind, Name string
	Owner      string // as Owner of holdfast.Hold
	Token      uint64 // as Token of holdfast.Hold
	Count      int    // as Count of holdfast.Hold: of a semaphore, how many permits
	How        How
	Waited     time.Duration // since Waiting
	Contended  bool          // somebody else had it, or waited before
}

// Refusal is a call that ended without the lock.
type Refusal struct {
	Kind, Name string
	Waited     time.Duration // since Waiting
	Err        error         // the reason, which the call returns in a holdfast.Error
}

// End is the end of a hold.
type End struct {
	Kind, Name string
	Owner      string
	Token      uint64
	Count      int
	// Reason is holdfast.ErrReleased, holdfast.ErrLost or holdfast.ErrClosed; test it with errors.Is. It is the cause of
	// the hold's context, with one exception. If Unlock found that the lock was lost, or the client
	// closed, the context had already ended with ErrReleased.
	Reason error
	Held   time.Duration // from the grant until it was handed off, about to be released, or lost
	Err    error         // what Unlock came to, if that ended the hold; nil if all is well
}

// Renewal is one renewal of one lease, or an attempt that failed.
type Renewal struct {
	Kind, Name string
	Owner      string
	Lease      time.Duration
	// Left is how much longer the client trusted the lease when the answer came: the early warning
	// before a loss. A healthy client renews when two thirds are left.
	Left time.Duration
	Err  error // nil: it is renewed. With holdfast.ErrLost it is lost; with any other error it is tried again
}

// Script is one script that was sent, for one lock.
type Script struct {
	Script  string        // its name, as that of the file in package lua
	Took    time.Duration // from sending to the answer, with repetitions
	Repeats int           // how often it was sent again
	Err     error         // of Redis or of the network
}

// Subscription is the loss or the return of a connection that wakes waiters.
type Subscription struct {
	Server string // its address, as go-redis has it
	Up     bool   // it is back, or not needed any more
	Err    error  // why it was lost
}

// SelfBlock is a wait for what the waiting client holds itself.
type SelfBlock struct {
	Kind, Name string
	Waited     time.Duration // at least
	Waits      int           // how many waits of this client for this holder have lasted so long
	Owner      string        // that holds the lock, as Owner of holdfast.Hold
	Token      uint64        // of that hold
	Held       time.Duration // at least
	// Sure says that the waiting caller holds the lock itself: Lock was called under the context of
	// the hold. Otherwise another goroutine may be the holder, and work for long.
	Sure bool
	// Waiting and Holding are where in the program the waiter, and the holder, called Lock:
	// "main.work main.go:17". A client notes a bounded number of places, and none of a multilock.
	// Empty means that it did not note this one.
	Waiting, Holding string
}

// Deadlock is a circle of waits, as a client with a wait in it sees it. No wait ends by
// itself, unless it has a limit: of holdfast.Wait, or of its context. The client does not know the limits
// of other clients' waits.
type Deadlock struct {
	Kind, Name string        // what this client waits for
	Waited     time.Duration // at least
	Where      string        // in the program the client called Lock; empty: not noted
	// Circle has all waits of the circle, that of this client first. Each waits for what the next
	// one has, and the last one for what the first one has.
	Circle []DeadlockedWait
}

// DeadlockedWait is one wait of a circle.
type DeadlockedWait struct {
	Client     string // the id of the client
	Label      string // its Label, see holdfast.Options
	Kind, Name string // what it waits for
	Waited     time.Duration
	Has        string // the name of the lock that it has, and that the wait before it is for
	Owner      string // of that lock
	Token      uint64 // of that hold
}
