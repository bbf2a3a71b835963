package holdfast

import (
	"context"
	"time"
)

// Observer hears what a client does, for metrics, traces and logs, as net/http/httptrace does for
// requests. Functions that are nil are skipped, and cost nothing. Fields may be added to the structs
// and functions to the Observer. New copies it: functions that are set later are not called.
//
// No function is called under a mutex. Waiting, Granted, Refused and, where a caller ends the hold,
// Ended run in the goroutine of the call that they tell of, and hold up nobody but that caller. All
// others run one after the other in a goroutine of the client's, and so does Ended where nobody
// unlocked. A function that is slow, blocks or panics delays no renewal, ends no hold late and
// changes the outcome of no call. Panics are logged by [Options.Logger]. Only Close waits for the
// client's goroutine, until its context ends: a function that calls Close from there waits for itself.
//
// What that goroutine is to tell waits in a queue, for about ten milliseconds where nothing blocks. While ten thousand events wait, further ones of
// Renewed, Sent and Subscribed are dropped; ends are dropped while a hundred thousand wait. Dropped
// says how many.
//
// A call that is refused for a bad argument, with [ErrInvalid] and before anything is sent, is not heard of: there is
// no Waiting, and so no Refused. Nor are waits for a latch, which nobody holds; its scripts are. A lock on several
// masters is heard of by the observer of its first client, a multilock by those of its members, each by
// itself: there is no event of the whole, and a member that is taken and given back, because another one was not to be
// had, is granted and ended.
//
// Not promised: that an event arrives before its consequence. A hold's context has ended when Ended
// tells of it, and somebody else may have the lock.
type Observer struct {
	// Waiting is called when a Lock or TryLock begins, of any kind. What it returns is the context that
	// Granted or Refused is given, one of which follows: a span begins here and ends there. It must
	// derive from ctx; nil stands for ctx. The call itself goes on under its own context. A Waiting that
	// ends its goroutine is followed by Refused, with the context that it was given.
	Waiting func(ctx context.Context, w WaitEvent) context.Context
	// Granted is called when the call has the lock, before it returns.
	//
	// The lock is held while Granted runs. A Granted that ends its goroutine, as runtime.Goexit does,
	// has the lock given back.
	Granted func(ctx context.Context, g GrantEvent)
	// Refused is called when the call ends without the lock.
	Refused func(ctx context.Context, r RefusalEvent)
	// Ended is called once for each grant of which Granted told, or would have, when the hold has
	// ended, and after Granted has returned. ctx is the one that Granted was given, without its end. So
	// it has the values that Waiting put into it, such as the place where Granted left a span.
	Ended func(ctx context.Context, e EndEvent)
	// Renewed is called after each renewal of a lease, and for each attempt that failed. A lock that
	// nobody holds, see [Keep], is renewed too.
	Renewed func(r RenewalEvent)
	// Sent is called when a script has been answered, or will not be.
	Sent func(s ScriptEvent)
	// Subscribed is called when the connection that wakes waiters has been lost, and when there is one
	// to the same address again, or nobody needs one there any more.
	Subscribed func(s SubscriptionEvent)
	// SelfBlocked is called when a wait has lasted for [Options.LongWait], and this client has held the
	// lock for as long: mostly the caller waits for itself. It is called once for each such holder.
	SelfBlocked func(s SelfBlockEvent)
	// Deadlocked is called when a wait of this client is part of a circle of waits: none of them ends
	// by itself, unless it has a limit. It is called once for each circle, in each client with a wait in
	// it. A client that waits to write for several readers knows one of them, and hears only of
	// circles through that one; the client of the reader that is in the circle hears of it.
	Deadlocked func(d DeadlockEvent)
	// Dropped is called with how many events the client's goroutine had no room for, since it last was.
	Dropped func(events int)
}

// WaitEvent is the beginning of a Lock or TryLock.
type WaitEvent struct {
	Kind, Name string // as in [Error]
	Once       bool   // it does not wait for other holders
	Bounded    bool   // it ends by itself: [Wait] was given, or its context has a deadline
}

// How a hold was granted.
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
	Contended  bool          // somebody else had it, or stood before
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
	// Reason is [ErrReleased], [ErrLost] or [ErrClosed]; errors.Is tells. It is the cause of the hold's
	// context, except where Unlock found that the lock was lost, or the client closed: the context ended
	// before that was known, with ErrReleased.
	Reason error
	Held   time.Duration // from the grant until it was handed off, about to be released, or lost
	Err    error         // what Unlock came to, if that ended the hold; nil if all is well
}

// RenewalEvent is one renewal of one lease, or an attempt that failed.
type RenewalEvent struct {
	Kind, Name string
	Owner      string
	Lease      time.Duration
	// Left is how much of the trust in the lease was left when the answer came: the early warning
	// before a loss. A healthy client renews when two thirds are left.
	Left time.Duration
	Err  error // nil: it is renewed. With [ErrLost] it is lost; with any other error it is tried again
}

// ScriptEvent is one script that was sent, for one lock.
type ScriptEvent struct {
	Script  string        // its name, as the file in package lua
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
	Waits      int           // how many of this client have waited so long for this holder
	Owner      string        // that holds the lock, as [Hold.Owner]
	Token      uint64        // of that hold
	Held       time.Duration // at least
	// Sure says that the caller that waits holds the lock itself: it was called under the context of
	// the hold. Else another goroutine may be the holder, which works for long.
	Sure bool
	// Waiting and Holding are where in the program the one that waits, and the holder, called Lock:
	// "main.work main.go:17". A client notes a bounded number of places, and none of a multilock; empty: not this one.
	Waiting, Holding string
}

// DeadlockEvent is a circle of waits, as the client sees it of which one wait is in it. None of them ends by
// itself, unless it has a limit: of [Wait], or of its context. That of others is not known to the client.
type DeadlockEvent struct {
	Kind, Name string        // what this client waits for
	Waited     time.Duration // at least
	Where      string        // in the program Lock was called; empty: not noted
	// Circle has all waits of the circle, that of this client first: each waits for what the next one
	// has, and the last one for what the first one has.
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
