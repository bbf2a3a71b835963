package holdfast

import (
	"context"
	"time"
)

// Observer has functions that the client calls when something happens, for metrics, traces and
// logs, as net/http/httptrace does for requests. A nil function is skipped, and costs nothing.
// Later versions may add fields to the structs and functions to the Observer. New copies the
// Observer: functions that you set later are not called.
//
// The client calls no function under a mutex. Waiting, Granted, Refused, and Ended if a caller ends
// the hold, run in the goroutine of that call, and delay only its caller. All others run one after
// the other in a goroutine of the client, and so does Ended if nobody unlocked. A function that is
// slow, blocks or panics delays no renewal, ends no hold late and changes the outcome of no call.
// [Options.Logger] logs panics. Only Close waits for the client's goroutine, until the context of
// Close ends: a function that calls Close from there waits for itself.
//
// Events for that goroutine wait in a queue, for about ten milliseconds if nothing blocks. While
// ten thousand events wait, the client drops further ones of Renewed, Sent and Subscribed. While a
// hundred thousand wait, it also drops ends. Dropped says how many.
//
// Some calls cause no events. A call that is refused for a bad argument, with [ErrInvalid] and
// before anything is sent, has no Waiting, and so no Refused. Nor has a wait for a latch, which
// nobody holds; its scripts have events. Events of a lock on several masters go to the observer of
// its first client. Events of a multilock go to the observers of its members, each by itself. There
// is no event of the whole. A member that is granted and given back, because another one was taken,
// has a Granted and an Ended.
//
// Not promised: that an event arrives before its consequence. When Ended is called, the hold's
// context has ended, and somebody else may have the lock.
type Observer struct {
	// Waiting is called when a Lock or TryLock begins, of any kind. Granted or Refused follows, and
	// gets the context that Waiting returns. So a span begins here and ends there. The context must
	// derive from ctx; nil stands for ctx. The call itself goes on under its own context. If
	// Waiting ends its goroutine, Refused follows, with the context that Waiting was given.
	Waiting func(ctx context.Context, w WaitEvent) context.Context
	// Granted is called when the call has the lock, before it returns.
	//
	// The lock is held while Granted runs. If Granted ends its goroutine, as runtime.Goexit does,
	// the client gives the lock back.
	Granted func(ctx context.Context, g GrantEvent)
	// Refused is called when the call ends without the lock.
	Refused func(ctx context.Context, r RefusalEvent)
	// Ended is called when the hold has ended, and after Granted has returned. It is called once
	// for each grant, even if Granted is nil. ctx is the one that Granted was given, without its
	// end. So it has the values that Waiting put into it, such as the place where Granted left a
	// span.
	Ended func(ctx context.Context, e EndEvent)
	// Renewed is called after each renewal of a lease, and for each attempt that failed. A lock
	// that the client keeps without a holder, see [Keep], is renewed too.
	Renewed func(r RenewalEvent)
	// Sent is called when a script has been answered, or when no answer will come.
	Sent func(s ScriptEvent)
	// Subscribed is called when the connection that wakes waiters is lost. It is called again when
	// there is a new connection to the same address, or when nobody needs one there any more.
	Subscribed func(s SubscriptionEvent)
	// SelfBlocked is called when a wait has lasted for [Options.LongWait], and this client has held
	// the lock for as long. Mostly the caller waits for itself. It is called once for each such
	// holder.
	SelfBlocked func(s SelfBlockEvent)
	// Deadlocked is called when a wait of this client is part of a circle of waits. None of them
	// ends by itself, unless it has a limit. Deadlocked is called once for each circle, in each
	// client with a wait in it. A client that waits to write while several readers hold the lock
	// knows one of them. It sees only circles through that reader; the client of the reader in the
	// circle sees the circle.
	Deadlocked func(d DeadlockEvent)
	// Dropped is called with the number of events that the client has dropped since the last call.
	Dropped func(events int)
}

// WaitEvent is the beginning of a Lock or TryLock.
type WaitEvent struct {
	Kind, Name string // as in [Error]
	Once       bool   // it does not wait for other holders
	Bounded    bool   // it ends by itself: [Wait] was given, or its context has a deadline
}

// How says how a hold was granted.
type How uint8

// The ways to a grant.
const (
	Asked     How = iota + 1 // a server granted the lock
	HandedOn                 // the last holder of this client, or of a fair queue, handed it on
	FromKept                 // the client had kept it, see [Keep]
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

// GrantEvent is a call that has the lock.
type GrantEvent struct {
	Kind, Name string
	Owner      string // as [Hold.Owner]
	Token      uint64 // as [Hold.Token]
	Count      int    // as [Hold.Count]: of a semaphore, how many permits
	How        How
	Waited     time.Duration // since Waiting
	Contended  bool          // somebody else had it, or waited before
}

// RefusalEvent is a call that ended without the lock.
type RefusalEvent struct {
	Kind, Name string
	Waited     time.Duration // since Waiting
	Err        error         // the reason, which the call returns in an [Error]
}

// EndEvent is the end of a hold.
type EndEvent struct {
	Kind, Name string
	Owner      string
	Token      uint64
	Count      int
	// Reason is [ErrReleased], [ErrLost] or [ErrClosed]; test it with errors.Is. It is the cause of
	// the hold's context, with one exception. If Unlock found that the lock was lost, or the client
	// closed, the context had already ended with ErrReleased.
	Reason error
	Held   time.Duration // from the grant until it was handed off, about to be released, or lost
	Err    error         // what Unlock came to, if that ended the hold; nil if all is well
}

// RenewalEvent is one renewal of one lease, or an attempt that failed.
type RenewalEvent struct {
	Kind, Name string
	Owner      string
	Lease      time.Duration
	// Left is how much longer the client trusted the lease when the answer came: the early warning
	// before a loss. A healthy client renews when two thirds are left.
	Left time.Duration
	Err  error // nil: it is renewed. With [ErrLost] it is lost; with any other error it is tried again
}

// ScriptEvent is one script that was sent, for one lock.
type ScriptEvent struct {
	Script  string        // its name, as that of the file in package lua
	Took    time.Duration // from sending to the answer, with repetitions
	Repeats int           // how often it was sent again
	Err     error         // of Redis or of the network
}

// SubscriptionEvent is the loss or the return of a connection that wakes waiters.
type SubscriptionEvent struct {
	Server string // its address, as go-redis has it
	Up     bool   // it is back, or not needed any more
	Err    error  // why it was lost
}

// SelfBlockEvent is a wait for what the waiting client holds itself.
type SelfBlockEvent struct {
	Kind, Name string
	Waited     time.Duration // at least
	Waits      int           // how many waits of this client for this holder have lasted so long
	Owner      string        // that holds the lock, as [Hold.Owner]
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

// DeadlockEvent is a circle of waits, as a client with a wait in it sees it. No wait ends by
// itself, unless it has a limit: of [Wait], or of its context. The client does not know the limits
// of other clients' waits.
type DeadlockEvent struct {
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
	Label      string // its [Options.Label]
	Kind, Name string // what it waits for
	Waited     time.Duration
	Has        string // the name of the lock that it has, and that the wait before it is for
	Owner      string // of that lock
	Token      uint64 // of that hold
}
