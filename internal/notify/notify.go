package notify

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

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
	Observer
	log    *slog.Logger
	events *queue[event]
}

// event is a queued call of one of the observer's functions.
type event struct {
	function string      // its name in the log
	call     func()      // nil: tell of script
	script   ScriptEvent // scripts are the most frequent events, and a func for each would be an allocation
}

// gatherFor is for how long events are gathered before the goroutine is started that tells them. At once it
// would be started for each script, and wake a second core for that: a pair of Lock and Unlock by one
// goroutine took a fifth longer.
const gatherFor = 10 * time.Millisecond

// New makes the notifier of the user's observer; nil if the observer has no function to call. Its goroutine
// belongs to the group.
func New(o *Observer, log *slog.Logger, group *task.Group) *Notifier {
	if o == nil || o.Waiting == nil && o.Granted == nil && o.Refused == nil && o.Ended == nil && o.Renewed == nil &&
		o.Sent == nil && o.Subscribed == nil && o.SelfBlocked == nil && o.Deadlocked == nil {
		return nil
	}
	n := &Notifier{Observer: *o, log: log}
	n.events = newQueue(func(run func()) {
		group.Begin()
		time.AfterFunc(gatherFor, func() {
			defer group.End()
			run()
		})
	}, n.handEvent)
	return n
}

// survive is deferred around each call of a function of the user's. A panic is logged and goes no further. If the
// function ends its goroutine, nothing can prevent that.
func (n *Notifier) survive(function string) {
	if p := recover(); p != nil {
		n.log.Error("a function of the observer panicked", "function", function, "panic", p, "stack", string(debug.Stack()))
	}
}

// handEvent is what the queue calls.
func (n *Notifier) handEvent(e event, dropped int) {
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
	defer n.survive(function)
	call()
}

// later has a function called by the queue's goroutine. It waits for nothing.
func (n *Notifier) later(function string, room int, call func()) {
	n.put(event{function: function, call: call}, room)
}

func (n *Notifier) put(e event, room int) {
	n.events.put(e, room)
}

// TellWaiting tells of the beginning of a wait, and returns the context for its end.
func (n *Notifier) TellWaiting(ctx context.Context, e WaitEvent) (next context.Context) {
	defer func() {
		if next == nil { // also if it panicked
			next = ctx
		}
	}()
	defer n.survive("Waiting")
	return n.Waiting(ctx, e)
}

// TellRefused tells of a call that ended without the lock.
func (n *Notifier) TellRefused(ctx context.Context, e RefusalEvent) {
	if n.Refused != nil {
		defer n.survive("Refused")
		n.Refused(ctx, e)
	}
}

// TellGranted tells of a call that has the lock.
func (n *Notifier) TellGranted(ctx context.Context, e GrantEvent) {
	if n.Granted != nil {
		defer n.survive("Granted")
		n.Granted(ctx, e)
	}
}

// TellSelfBlocked queues the event. The notifier may be nil.
func (n *Notifier) TellSelfBlocked(e SelfBlockEvent) {
	if n != nil && n.SelfBlocked != nil {
		n.later("SelfBlocked", roomForEvents, func() { n.SelfBlocked(e) })
	}
}

// TellDeadlocked queues the event. The notifier may be nil.
func (n *Notifier) TellDeadlocked(e DeadlockEvent) {
	if n != nil && n.Deadlocked != nil {
		n.later("Deadlocked", roomForEvents, func() { n.Deadlocked(e) })
	}
}

// Scripts is the function that is to be called for each script; nil if the observer has none for that.
func (n *Notifier) Scripts() func(remote.Script) {
	if n.Sent == nil {
		return nil
	}
	return func(s remote.Script) {
		n.put(event{script: ScriptEvent{Script: s.Name, Took: s.Took, Repeats: s.Repeats, Err: s.Err}}, roomForEvents)
	}
}

// Connections is the function that is to be called for each loss and return of a connection that wakes waiters;
// nil if the observer has none for that.
func (n *Notifier) Connections() func(pubsub.Connection) {
	if n.Subscribed == nil {
		return nil
	}
	return func(c pubsub.Connection) {
		e := SubscriptionEvent(c)
		n.later("Subscribed", roomForEvents, func() { n.Subscribed(e) })
	}
}
