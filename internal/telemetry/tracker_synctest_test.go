package telemetry

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

// counted is an exporter that counts what it is told, by a text for each.
type counted struct {
	mu sync.Mutex
	n  map[string]int
}

func newCounted() *counted { return &counted{n: map[string]int{}} }

func (c *counted) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[fmt.Sprintf(format, args...)]++
}

func (c *counted) Series(kind, class string) Series {
	c.add("series %s/%s", kind, class)
	return countedSeries{c, kind + "/" + class}
}

func (c *counted) Script(name string, _ time.Duration, repeats int, failure string) {
	c.add("script %s %d %s", name, repeats, failure)
}
func (c *counted) SubscriptionLost() { c.add("subscription lost") }
func (c *counted) Dropped(n int)     { c.add("dropped %d", n) }

type countedSeries struct {
	of   *counted
	name string
}

func (s countedSeries) Acquired(_ context.Context, outcome string, granted, contended bool, _ time.Duration) {
	s.of.add("%s acquired %s %t %t", s.name, outcome, granted, contended)
}
func (s countedSeries) Ended(context.Context, time.Duration)  { s.of.add("%s ended", s.name) }
func (s countedSeries) Lost(_ context.Context, reason string) { s.of.add("%s lost %s", s.name, reason) }
func (s countedSeries) Uncertain(_ context.Context, op string) {
	s.of.add("%s uncertain %s", s.name, op)
}
func (s countedSeries) Deadlocked(shape string) { s.of.add("%s deadlocked %s", s.name, shape) }
func (s countedSeries) Renewed(outcome string, _ float64, confirmed bool) {
	s.of.add("%s renewed %s %t", s.name, outcome, confirmed)
}

// client plays what a client tells its observer.
type client struct{ *event.Observer }

func (c client) wait(name string) context.Context {
	return c.Waiting(context.Background(), event.Wait{Kind: "rlock", Name: name})
}

// grant returns the context of the hold's end.
func (c client) grant(ctx context.Context, name string, token uint64, count int) context.Context {
	c.Granted(ctx, event.Grant{Kind: "rlock", Name: name, Owner: "o", Token: token, Count: count, How: event.Asked})
	return ctx
}

func (c client) end(ctx context.Context, name string, token uint64, count int, why error) {
	c.Ended(ctx, event.End{Kind: "rlock", Name: name, Owner: "o", Token: token, Count: count, Reason: why})
}

// stateOf is what the tracker says of one class of rlock, without the labels.
func stateOf(tr *Tracker, class string) State {
	for _, s := range tr.States() {
		if s.Kind == "rlock" && s.Class == class {
			s.Kind, s.Class = "", ""
			return s
		}
	}
	return State{}
}

func TestWhatIsHeldAndWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := NewTracker(Config{Kinds: []string{"rlock"}}, newCounted())
		c := client{tr.Observer()}
		first := c.wait("a")
		time.Sleep(time.Second)
		second := c.wait("b")
		time.Sleep(time.Second)
		require.Equal(t, State{Waiting: 2, OldestWaiter: 2 * time.Second}, stateOf(tr, ""))
		outer := c.grant(first, "a", 1, 1)
		time.Sleep(time.Second)
		require.Equal(t, State{Held: 1, Waiting: 1, OldestHold: time.Second, OldestWaiter: 2 * time.Second}, stateOf(tr, ""))
		c.Refused(second, event.Refusal{Kind: "rlock", Name: "b", Err: holdfast.ErrNotAcquired})
		inner := c.grant(c.wait("a"), "a", 1, 2)
		time.Sleep(time.Second)
		require.Equal(t, State{Held: 2, OldestHold: 2 * time.Second}, stateOf(tr, ""))
		c.end(outer, "a", 1, 1, holdfast.ErrReleased)
		require.Equal(t, State{Held: 1, OldestHold: time.Second}, stateOf(tr, ""), "the re-entry is left")
		c.end(inner, "a", 1, 2, holdfast.ErrLost)
		c.end(inner, "a", 1, 2, holdfast.ErrLost)
		require.Zero(t, stateOf(tr, ""), "also if an end is told twice")
	})
}

func TestTwoTrackersInOneContext(t *testing.T) {
	one, two := NewTracker(Config{}, newCounted()), NewTracker(Config{}, newCounted())
	c := client{event.Join(one.Observer(), two.Observer())}
	ctx := c.grant(c.wait("a"), "a", 1, 1)
	require.Equal(t, 1, stateOf(one, "").Held)
	c.end(ctx, "a", 1, 1, holdfast.ErrReleased)
	require.Zero(t, stateOf(one, ""))
	require.Zero(t, stateOf(two, ""))
}

// A context that another observer has put in place of ours leaves nothing that is held for ever.
func TestAForeignContext(t *testing.T) {
	tr := NewTracker(Config{}, newCounted())
	c := client{tr.Observer()}
	c.grant(context.Background(), "a", 1, 1)
	c.end(context.Background(), "a", 1, 1, holdfast.ErrReleased)
	require.Zero(t, stateOf(tr, ""))
}

func TestManyGoroutines(t *testing.T) {
	counts := newCounted()
	tr := NewTracker(Config{Class: beforeColon}, counts)
	c := client{tr.Observer()}
	leak.Together(16, func(g int) {
		for i := range 100 {
			token := uint64(g*1000 + i)
			c.end(c.grant(c.wait("a:1"), "a:1", token, 1), "a:1", token, 1, holdfast.ErrReleased)
			tr.States()
		}
	})
	require.Zero(t, stateOf(tr, "a"))
	require.Equal(t, 1600, counts.n["rlock/a acquired asked true false"])
	require.Equal(t, 1600, counts.n["rlock/a ended"])
	require.Equal(t, 1, counts.n["series rlock/a"])
	require.Equal(t, 1, counts.n["series election/other"], "counters begin before anything happens")
}

func TestWhatIsTold(t *testing.T) {
	counts := newCounted()
	tr := NewTracker(Config{Kinds: []string{"rlock"}}, counts)
	c := client{tr.Observer()}
	once := c.Waiting(context.Background(), event.Wait{Kind: "rlock", Name: "a", Once: true})
	c.Refused(once, event.Refusal{Kind: "rlock", Name: "a", Err: wrap(holdfast.ErrNotAcquired)})
	c.Refused(c.wait("a"), event.Refusal{Kind: "rlock", Name: "a", Err: wrap(holdfast.ErrUnavailable, holdfast.ErrUncertain)})
	c.end(c.grant(c.wait("a"), "a", 1, 1), "a", 1, 1, wrap(holdfast.ErrLost))
	c.Ended(context.Background(), event.End{Kind: "rlock", Name: "a", Reason: holdfast.ErrReleased, Err: wrap(holdfast.ErrUncertain)})
	c.Renewed(event.Renewal{Kind: "rlock", Name: "a", Lease: 3, Left: 2})
	c.Sent(event.Script{Script: "acquire", Repeats: 2, Err: context.DeadlineExceeded})
	for _, up := range []bool{false, false, true, false} {
		c.Subscribed(event.Subscription{Server: "s", Up: up})
	}
	c.Dropped(3)
	require.Equal(t, 1, tr.Down())
	require.Equal(t, map[string]int{
		"series rlock/":                      1,
		"rlock/ acquired refused false true": 1, "rlock/ acquired unavailable false false": 1,
		"rlock/ acquired asked true false": 1, "rlock/ uncertain acquire": 1, "rlock/ uncertain release": 1,
		"rlock/ ended": 2, "rlock/ lost other": 1, "rlock/ renewed in_time true": 1,
		"script acquire 2 unanswered": 1, "subscription lost": 2,
		"dropped 3": 1,
	}, counts.n)
}
