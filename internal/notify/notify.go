package notify

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/task"
	"github.com/holdfast-go/holdfast/pubsub"
)

const (
	// roomForEvents is how many events wait for an observer at most, before others are dropped.
	roomForEvents = 10_000
	// roomForEnds is the same for ends of holds: an observer that counts holds must not miss them when a
	// server with all of them is lost at once.
	roomForEnds = 100_000
)

// Notifier calls the functions of a client's observer.
type Notifier struct {
	event.Observer
	log    *slog.Logger
	events *queue[queued]
}

// queued is a call of one of the observer's functions.
type queued struct {
	function string       // its name in the log
	call     func()       // nil: deliver script
	script   event.Script // scripts are the most frequent events, and a func for each would be an allocation
}

// startDelay is for how long events are collected before the goroutine that delivers them is started. Without the
// delay each script would start it, and wake a second core: a Lock and an Unlock by one goroutine took a fifth
// longer.
const startDelay = 10 * time.Millisecond

// New makes the notifier of the user's observer; nil if the observer has no function to call. Its goroutine
// belongs to the group.
func New(o *event.Observer, log *slog.Logger, group *task.Group) *Notifier {
	if o == nil || o.Waiting == nil && o.Granted == nil && o.Refused == nil && o.Ended == nil && o.Renewed == nil &&
		o.Sent == nil && o.Subscribed == nil && o.SelfBlocked == nil && o.Deadlocked == nil {
		return nil
	}
	n := &Notifier{Observer: *o, log: log}
	n.events = newQueue(func(run func()) {
		group.Begin()
		time.AfterFunc(startDelay, func() {
			defer group.End()
			run()
		})
	}, n.callObserver)
	return n
}

// logPanic is deferred around each call of a function of the user. It logs a panic, and the panic goes no further. A
// function that ends its goroutine cannot be stopped from that.
func (n *Notifier) logPanic(function string) {
	if p := recover(); p != nil {
		n.log.Error("a function of the observer panicked", "function", function, "panic", p, "stack", string(debug.Stack()))
	}
}

// callObserver delivers one queued event.
func (n *Notifier) callObserver(e queued, dropped int) {
	if dropped > 0 && n.Dropped != nil {
		n.guarded("Dropped", func() { n.Dropped(dropped) })
	}
	if e.call == nil {
		n.guarded("Sent", func() { n.Sent(e.script) })
		return
	}
	n.guarded(e.function, e.call)
}

func (n *Notifier) guarded(function string, call func()) {
	defer n.logPanic(function)
	call()
}

// enqueue makes the queue's goroutine call a function. It does not wait.
func (n *Notifier) enqueue(function string, room int, call func()) {
	n.put(queued{function: function, call: call}, room)
}

func (n *Notifier) put(e queued, room int) {
	n.events.put(e, room)
}

// TellWaiting reports the beginning of a wait, and returns the context for its end.
func (n *Notifier) TellWaiting(ctx context.Context, e event.Wait) (next context.Context) {
	defer func() {
		if next == nil { // also if it panicked
			next = ctx
		}
	}()
	defer n.logPanic("Waiting")
	return n.Waiting(ctx, e)
}

// TellRefused reports a call that ended without the lock.
func (n *Notifier) TellRefused(ctx context.Context, e event.Refusal) {
	if n.Refused != nil {
		defer n.logPanic("Refused")
		n.Refused(ctx, e)
	}
}

// TellGranted reports a call that was granted the lock.
func (n *Notifier) TellGranted(ctx context.Context, e event.Grant) {
	if n.Granted != nil {
		defer n.logPanic("Granted")
		n.Granted(ctx, e)
	}
}

// TellSelfBlocked queues the event. The notifier may be nil.
func (n *Notifier) TellSelfBlocked(e event.SelfBlock) {
	if n != nil && n.SelfBlocked != nil {
		n.enqueue("SelfBlocked", roomForEvents, func() { n.SelfBlocked(e) })
	}
}

// TellDeadlocked queues the event. The notifier may be nil.
func (n *Notifier) TellDeadlocked(e event.Deadlock) {
	if n != nil && n.Deadlocked != nil {
		n.enqueue("Deadlocked", roomForEvents, func() { n.Deadlocked(e) })
	}
}

// Scripts is the function to call for each script; nil if the observer does not want them.
func (n *Notifier) Scripts() func(remote.Script) {
	if n.Sent == nil {
		return nil
	}
	return func(s remote.Script) {
		n.put(queued{script: event.Script{Script: s.Name, Took: s.Took, Repeats: s.Repeats, Err: s.Err}}, roomForEvents)
	}
}

// Connections is the function to call for each loss and return of a connection that wakes waiters; nil if the observer
// does not want them.
func (n *Notifier) Connections() func(pubsub.Connection) {
	if n.Subscribed == nil {
		return nil
	}
	return func(c pubsub.Connection) {
		e := event.Subscription(c)
		n.enqueue("Subscribed", roomForEvents, func() { n.Subscribed(e) })
	}
}
