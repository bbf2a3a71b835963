package engine

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/holdfast-go/holdfast/internal/aside"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/task"
	"github.com/holdfast-go/holdfast/pubsub"
)

const (
	// roomForEvents is how many events wait for an observer at most, before others are dropped.
	roomForEvents = 10_000
	// roomForEnds is the same for ends of holds: who counts holds must not miss them when a server
	// with all of them is lost at once.
	roomForEnds = 100_000
)

// observed is the observer of a client. What a caller does is told in the caller's goroutine, by tell,
// with no mutex held and after all that the library has to do itself. The rest goes through a queue.
type observed struct {
	Observer
	log    *slog.Logger
	events *aside.Queue[event]
}

// event is a call of a function of the user's, which has a name in the log. A script's, of which there
// are the most, is no function that would be allocated for each.
type event struct {
	function string
	call     func()      // nil: it is of a script
	script   ScriptEvent // then
}

// gather is for how long events are gathered before the goroutine is started that tells them. At once it
// would be started for each script, and wake a second core for that: a pair of Lock and Unlock by one
// goroutine took a fifth longer.
const gather = 10 * time.Millisecond

// observe makes it of what the user has given; nil if nobody would hear anything. The goroutine is one of
// the group.
func observe(o *Observer, log *slog.Logger, group *task.Group) *observed {
	if o == nil || o.Waiting == nil && o.Granted == nil && o.Refused == nil && o.Ended == nil && o.Renewed == nil &&
		o.Sent == nil && o.Subscribed == nil && o.SelfBlocked == nil && o.Deadlocked == nil {
		return nil
	}
	to := &observed{Observer: *o, log: log}
	to.events = aside.New(func(run func()) {
		group.Begin()
		time.AfterFunc(gather, func() {
			defer group.End()
			run()
		})
	}, to.hand)
	return to
}

// survive is deferred by who calls a function of the user's. If that panics, it is logged, and is nobody else's
// affair. If it ends its goroutine, nobody can prevent that.
func (o *observed) survive(function string) {
	if p := recover(); p != nil {
		o.log.Error("a function of the observer panicked", "function", function, "panic", p, "stack", string(debug.Stack()))
	}
}

// tell calls a function of the user's. Those of every call are called without it, which would copy their events once
// more.
func (o *observed) tell(function string, call func()) {
	defer o.survive(function)
	call()
}

// hand is what the queue calls.
func (o *observed) hand(e event, dropped int) {
	if dropped > 0 && o.Dropped != nil {
		o.tell("Dropped", func() { o.Dropped(dropped) })
	}
	if e.call == nil {
		o.tell("Sent", func() { o.Sent(e.script) })
		return
	}
	o.tell(e.function, e.call)
}

// later has a function called aside. It waits for nothing.
func (o *observed) later(function string, room int, call func()) {
	o.put(event{function: function, call: call}, room)
}

func (o *observed) put(e event, room int) {
	o.events.Put(e, room)
}

// waiting returns the context for the end of the wait.
func (o *observed) waiting(ctx context.Context, e WaitEvent) (next context.Context) {
	defer func() {
		if next == nil { // also if it panicked
			next = ctx
		}
	}()
	defer o.survive("Waiting")
	return o.Waiting(ctx, e)
}

func (o *observed) refused(ctx context.Context, e RefusalEvent) {
	if o.Refused != nil {
		o.tell("Refused", func() { o.Refused(ctx, e) })
	}
}

func (o *observed) granted(ctx context.Context, e GrantEvent) {
	defer o.survive("Granted")
	o.Granted(ctx, e)
}

// errHook is why a call has no lock in which a hook of go-redis panicked, which goes on, or whose goroutine
// ended.
var errHook = errs.Both(errs.ErrUnavailable, errors.New("a hook of go-redis panicked, or a function of the user's ended the goroutine"))

// What is told aside: functions for those who have something to tell, nil if nobody hears of it.

func (o *observed) sent() func(remote.Script) {
	if o.Sent == nil {
		return nil
	}
	return func(s remote.Script) {
		o.put(event{script: ScriptEvent{Script: s.Name, Took: s.Took, Repeats: s.Repeats, Err: s.Err}}, roomForEvents)
	}
}

func (o *observed) subscribed() func(pubsub.Connection) {
	if o.Subscribed == nil {
		return nil
	}
	return func(c pubsub.Connection) {
		e := SubscriptionEvent(c)
		o.later("Subscribed", roomForEvents, func() { o.Subscribed(e) })
	}
}
