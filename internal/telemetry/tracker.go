package telemetry

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
)

// Buckets are the upper bounds, in seconds, of times of waiting and holding, which last from less than
// a millisecond to hours.
var Buckets = []float64{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3600}

// ScriptBuckets are those of scripts.
var ScriptBuckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// SlackBuckets are those of the slack of renewals. A healthy one has about two thirds.
var SlackBuckets = []float64{0.05, 0.1, 0.2, 0.33, 0.4, 0.5, 0.6, 0.65, 0.7, 1}

// Series has the numbers of one kind and class. Its methods may run at the same time.
type Series interface {
	// Acquired is the end of a Lock or TryLock. ctx is that of its Granted or Refused.
	Acquired(ctx context.Context, outcome string, granted, contended bool, waited time.Duration)
	Ended(ctx context.Context, held time.Duration)
	Lost(ctx context.Context, reason string)
	Renewed(outcome string, slack float64, confirmed bool)
	Uncertain(ctx context.Context, operation string)
	Deadlocked(shape string)
}

// Exporter makes numbers of what a Tracker tells it. Its methods may run at the same time.
type Exporter interface {
	Series(kind, class string) Series // called once for each pair; all its counters begin at 0 then
	Script(name string, took time.Duration, repeats int, failure string)
	SubscriptionLost()
	Dropped(n int)
}

// Config is what users may choose.
type Config struct {
	Class      func(name string) string
	MaxClasses int      // 0: DefaultMaxClasses
	Kinds      []string // whose counters begin at 0; nil: all
}

// Tracker hears events, and knows what is held and waited for.
type Tracker struct {
	exporter Exporter
	classes  classes

	mu     sync.RWMutex // guards the rest
	series map[[2]string]*series
	down   map[string]bool // servers whose subscription is lost
}

// series is one pair of kind and class.
type series struct {
	Series
	kind, class    string
	waiting, holds set
}

// NewTracker makes a Tracker for an exporter.
func NewTracker(c Config, e Exporter) *Tracker {
	if c.MaxClasses <= 0 {
		c.MaxClasses = DefaultMaxClasses
	}
	if c.Kinds == nil {
		c.Kinds = Kinds
	}
	t := &Tracker{exporter: e, classes: classes{of: c.Class, max: c.MaxClasses}, series: map[[2]string]*series{},
		down: map[string]bool{}}
	first := ""
	if c.Class != nil {
		first = Other // the only class that is known beforehand
	}
	for _, kind := range c.Kinds {
		t.of(kind, first)
	}
	return t
}

// find returns the series of a lock.
func (t *Tracker) find(kind, name string) *series { return t.of(kind, t.classes.class(kind, name)) }

func (t *Tracker) of(kind, class string) *series {
	pair := [2]string{kind, class}
	t.mu.RLock()
	s := t.series[pair]
	t.mu.RUnlock()
	if s != nil {
		return s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s = t.series[pair]; s == nil {
		s = &series{Series: t.exporter.Series(kind, class), kind: kind, class: class}
		t.series[pair] = s
	}
	return s
}

// Observer is what the client is given.
func (t *Tracker) Observer() *event.Observer {
	return &event.Observer{Waiting: t.waiting, Granted: t.granted, Refused: t.refused, Ended: t.ended,
		Renewed: t.renewed, Sent: t.sent, Subscribed: t.subscribed, Dropped: t.exporter.Dropped,
		SelfBlocked: t.selfBlocked, Deadlocked: t.deadlocked}
}

// callKey finds a call in the contexts of its events. Several trackers may hear of it.
type callKey struct{ *Tracker }

// call is a Lock or TryLock, and the hold that it led to. Its events come one after the other.
type call struct {
	once       bool
	wait, hold *item // nil: not begun, or over
}

func (t *Tracker) waiting(ctx context.Context, w event.Wait) context.Context {
	return context.WithValue(ctx, callKey{t}, &call{w.Once, t.find(w.Kind, w.Name).waiting.begin(time.Now()), nil})
}

// call returns the one that a context belongs to. If another observer has put a context in its place
// that does not derive from it, the call cannot be known, and what it began stays begun.
func (t *Tracker) call(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{t}).(*call); ok {
		return c
	}
	return &call{}
}

func (t *Tracker) granted(ctx context.Context, g event.Grant) {
	s, c := t.find(g.Kind, g.Name), t.call(ctx)
	if c.wait != nil { // else its end would not be known either
		c.wait.end()
		c.hold = s.holds.begin(time.Now())
	}
	s.Acquired(ctx, g.How.String(), true, g.Contended, g.Waited)
}

func (t *Tracker) refused(ctx context.Context, r event.Refusal) {
	s, c := t.find(r.Kind, r.Name), t.call(ctx)
	c.wait.end()
	outcome := Outcome(ctx, c.once, r.Err)
	s.Acquired(ctx, outcome, false, outcome == Refused || outcome == TimedOut, r.Waited)
	if errors.Is(r.Err, holdfast.ErrUncertain) {
		s.Uncertain(ctx, Acquire)
	}
}

func (t *Tracker) ended(ctx context.Context, e event.End) {
	s := t.find(e.Kind, e.Name)
	t.call(ctx).hold.end()
	s.Ended(ctx, e.Held)
	if errors.Is(e.Reason, holdfast.ErrLost) {
		s.Lost(ctx, Reason(e.Reason))
	}
	if errors.Is(e.Err, holdfast.ErrUncertain) {
		s.Uncertain(ctx, Release)
	}
}

func (t *Tracker) renewed(r event.Renewal) {
	outcome, slack := Renewal(r)
	t.find(r.Kind, r.Name).Renewed(outcome, slack, r.Err == nil)
}

func (t *Tracker) sent(e event.Script) {
	t.exporter.Script(e.Script, e.Took, e.Repeats, Failure(e.Err))
}

func (t *Tracker) subscribed(e event.Subscription) {
	t.mu.Lock()
	was := t.down[e.Server]
	if e.Up {
		delete(t.down, e.Server)
	} else {
		t.down[e.Server] = true
	}
	t.mu.Unlock()
	if !e.Up && !was {
		t.exporter.SubscriptionLost()
	}
}

func (t *Tracker) selfBlocked(e event.SelfBlock) { t.find(e.Kind, e.Name).Deadlocked(Self) }

func (t *Tracker) deadlocked(e event.Deadlock) { t.find(e.Kind, e.Name).Deadlocked(Circle) }

// State is what one kind and class has now.
type State struct {
	Kind, Class              string
	Held, Waiting            int
	OldestHold, OldestWaiter time.Duration // since when; 0: there is none
}

// States returns the state of all series.
func (t *Tracker) States() []State {
	now := time.Now()
	t.mu.RLock()
	all := slices.Collect(maps.Values(t.series))
	t.mu.RUnlock()
	states := make([]State, len(all))
	for i, s := range all {
		states[i] = State{Kind: s.kind, Class: s.class}
		states[i].Held, states[i].OldestHold = s.holds.state(now)
		states[i].Waiting, states[i].OldestWaiter = s.waiting.state(now)
	}
	return states
}

// Down is to how many servers the subscription is lost.
func (t *Tracker) Down() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.down)
}
