// Package event has what a client tells about its locks: who begins to wait, is granted a lock, is refused or lets
// go, each renewal, each script, and what no call returns, such as a circle of waits. An [Observer] hears of it:
//
//	client, err := holdfast.New(rdb, &holdfast.Options{Observer: &event.Observer{
//		Refused: func(_ context.Context, r event.Refusal) { refusals.WithLabelValues(r.Kind).Inc() },
//	}})
//
// Packages holdfastprom and holdfastotel make metrics, traces and logs of it. [Join] lets several observers hear one client.
package event

import "context"

// Observer has functions that the client calls when something happens, for metrics, traces and
// logs, as net/http/httptrace does for requests. A nil function is skipped, and costs nothing.
// Later versions may add fields to the structs and functions to the Observer. holdfast.New copies the
// Observer: functions that you set later are not called.
//
// The client calls no function under a mutex. Waiting, Granted, Refused, and Ended if a caller ends
// the hold, run in the goroutine of that call, and delay only its caller. All others run one after
// the other in a goroutine of the client, and so does Ended if nobody unlocked. A function that is
// slow, blocks or panics delays no renewal, ends no hold late and changes the outcome of no call.
// Logger of holdfast.Options logs panics. Only Close waits for the client's goroutine, until the context of
// Close ends: a function that calls Close from there waits for itself.
//
// Events for that goroutine wait in a queue, for about ten milliseconds if nothing blocks. While
// ten thousand events wait, the client drops further ones of Renewed, Sent and Subscribed. While a
// hundred thousand wait, it also drops ends. Dropped says how many.
//
// Some calls cause no events. A call that is refused for a bad argument, with holdfast.ErrInvalid and
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
	Waiting func(ctx context.Context, w Wait) context.Context
	// Granted is called when the call has the lock, before it returns.
	//
	// The lock is held while Granted runs. If Granted ends its goroutine, as runtime.Goexit does,
	// the client gives the lock back.
	Granted func(ctx context.Context, g Grant)
	// Refused is called when the call ends without the lock.
	Refused func(ctx context.Context, r Refusal)
	// Ended is called when the hold has ended, and after Granted has returned. It is called once
	// for each grant, even if Granted is nil. ctx is the one that Granted was given, without its
	// end. So it has the values that Waiting put into it, such as the place where Granted left a
	// span.
	Ended func(ctx context.Context, e End)
	// Renewed is called after each renewal of a lease, and for each attempt that failed. A lock
	// that the client keeps without a holder, see rlock.Keep, is renewed too.
	Renewed func(r Renewal)
	// Sent is called when a script has been answered, or when no answer will come.
	Sent func(s Script)
	// Subscribed is called when the connection that wakes waiters is lost. It is called again when
	// there is a new connection to the same address, or when nobody needs one there any more.
	Subscribed func(s Subscription)
	// SelfBlocked is called when a wait has lasted for LongWait of holdfast.Options, and this client has held
	// the lock for as long. Mostly the caller waits for itself. It is called once for each such
	// holder.
	SelfBlocked func(s SelfBlock)
	// Deadlocked is called when a wait of this client is part of a circle of waits. None of them
	// ends by itself, unless it has a limit. Deadlocked is called once for each circle, in each
	// client with a wait in it. A client that waits to write while several readers hold the lock
	// knows one of them. It sees only circles through that reader; the client of the reader in the
	// circle sees the circle.
	Deadlocked func(d Deadlock)
	// Dropped is called with the number of events that the client has dropped since the last call.
	Dropped func(events int)
}
