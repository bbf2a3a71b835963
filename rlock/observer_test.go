package rlock_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// panicsAll is an observer whose every function panics.
func panicsAll() *event.Observer {
	return &event.Observer{
		Waiting:    func(context.Context, event.Wait) context.Context { panic("Waiting") },
		Granted:    func(context.Context, event.Grant) { panic("Granted") },
		Refused:    func(context.Context, event.Refusal) { panic("Refused") },
		Ended:      func(context.Context, event.End) { panic("Ended") },
		Renewed:    func(event.Renewal) { panic("Renewed") },
		Sent:       func(event.Script) { panic("Sent") },
		Subscribed: func(event.Subscription) { panic("Subscribed") },
		Dropped:    func(int) { panic("Dropped") },
	}
}

// TestPanickingObserver: functions that panic are logged and change no outcome. Control: uncaught, a panic reaches the caller.
func TestPanickingObserver(t *testing.T) {
	log := &kindtest.Log{}
	c, _ := shared(t, &holdfast.Options{Observer: panicsAll(), Logger: log.Logger()})
	m := rlock.New(c, uniqueName(t))
	other, _ := shared(t, nil)
	h := lock(t, m, holdfast.Lease(3*time.Second))
	refused(t.Context(), t, m.TryLock)
	end := h.Deadline()
	eventually(t, "it is renewed", func() bool { return h.Deadline().After(end) })
	unlock(t, h)
	h = lock(t, m, holdfast.NoRenewal(), holdfast.Lease(time.Second))
	require.ErrorIs(t, awaitEnd(t, h), holdfast.ErrLost)
	for _, function := range []string{"Waiting", "Granted", "Refused", "Ended", "Renewed", "Sent"} {
		eventually(t, function+" is logged", func() bool { return strings.Contains(log.String(), "function="+function) })
	}

	defer defence.Caught.Without(t)()
	o := &event.Observer{Granted: func(context.Context, event.Grant) { panic("Granted") }}
	loud, _ := shared(t, &holdfast.Options{Observer: o})
	require.Panics(t, func() { _, _ = rlock.New(loud, m.Name()).Lock(t.Context()) }, "control")
	take(t.Context(), t, rlock.New(other, m.Name()).TryLock) // what nobody has is given back even so
}

// TestObserverEndsGoroutine: a function that ends the goroutine of a call that has the lock, as
// t.FailNow does, takes no lock with it. Control: where it is not given back, it stays taken.
func TestObserverEndsGoroutine(t *testing.T) {
	o := &event.Observer{Granted: func(context.Context, event.Grant) { runtime.Goexit() }}
	try := func() error {
		c, _ := shared(t, &holdfast.Options{Observer: o})
		m := rlock.New(c, uniqueName(t))
		leak.Together(1, func(int) { _, _ = m.Lock(t.Context()) })
		other, _ := shared(t, nil)
		h, err := rlock.New(other, m.Name()).TryLock(t.Context())
		if err == nil {
			unlock(t, h)
		}
		return err
	}
	require.NoError(t, try())
	defer defence.NobodyHas.Without(t)()
	require.ErrorIs(t, try(), holdfast.ErrNotAcquired, "control")
}

// TestObserverEndsGoroutineAtFirst: Refused follows a Waiting that ends the goroutine, so that counts of waiters add up.
func TestObserverEndsGoroutineAtFirst(t *testing.T) {
	refused := make(chan event.Refusal, 10)
	c, _ := shared(t, &holdfast.Options{Observer: &event.Observer{
		Waiting: func(context.Context, event.Wait) context.Context { runtime.Goexit(); return nil },
		Refused: func(_ context.Context, r event.Refusal) { refused <- r },
	}})
	leak.Together(1, func(int) { _, _ = rlock.New(c, uniqueName(t)).Lock(t.Context()) })
	require.Len(t, refused, 1)
	require.ErrorIs(t, (<-refused).Err, holdfast.ErrUnavailable)
}

// TestObserverHearsOfHandOff: how grants came about that goroutines of one client pass on, or that the client kept.
func TestObserverHearsOfHandOff(t *testing.T) {
	var mu sync.Mutex
	how := map[event.How]int{}
	c, _ := shared(t, &holdfast.Options{Observer: &event.Observer{Granted: func(_ context.Context, e event.Grant) {
		mu.Lock()
		defer mu.Unlock()
		how[e.How]++
	}}})
	m := rlock.New(c, uniqueName(t), rlock.Keep(time.Minute))
	seen := func(h event.How) bool {
		mu.Lock()
		defer mu.Unlock()
		return how[h] > 0
	}
	pair := func(int) { assert.NoError(t, kindtest.Pair(t.Context(), m)) }
	eventually(t, "handed on", func() bool { leak.Together(4, pair); return seen(event.HandedOn) })
	eventually(t, "kept", func() bool { pair(0); return seen(event.FromKept) })
	require.True(t, seen(event.Asked))
}

// TestWaitedIsNotNegative: Unlock reads the clock once, and hands the lock off by that to a waiter that may have come since.
func TestWaitedIsNotNegative(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	handed, waited, held := 0, time.Hour, time.Hour
	c, _ := shared(t, &holdfast.Options{Observer: &event.Observer{
		Granted: func(_ context.Context, e event.Grant) {
			mu.Lock()
			defer mu.Unlock()
			if waited = min(waited, e.Waited); e.How == event.HandedOn {
				handed++
			}
		},
		Ended: func(_ context.Context, e event.End) {
			mu.Lock()
			defer mu.Unlock()
			held = min(held, e.Held)
		},
	}})
	m := rlock.New(c, uniqueName(t))
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return handed >= 20_000
	}
	leak.Together(3, func(int) {
		for !enough() && assert.NoError(t, kindtest.Pair(t.Context(), m)) {
		}
	})
	require.GreaterOrEqual(t, waited, time.Duration(0))
	require.GreaterOrEqual(t, held, time.Duration(0))
}

// ends has a hold end that nobody renews, and returns why, as an observer was told of it until the client was closed.
func ends(t *testing.T) (told []error) {
	c, err := holdfast.New(redistest.Shared(t).Client(t), &holdfast.Options{Observer: &event.Observer{
		Ended: func(_ context.Context, e event.End) { told = append(told, e.Reason) }, // one after the other
	}})
	require.NoError(t, err)
	h := lock(t, rlock.New(c, uniqueName(t)), holdfast.NoRenewal(), holdfast.Lease(100*time.Millisecond))
	require.ErrorIs(t, awaitEnd(t, h), holdfast.ErrLost)
	require.NoError(t, c.Close(t.Context())) // the observer has been told of everything then
	return told
}

// TestObserverHearsOfLoss: an observer is told of a hold's end that no Unlock made. Control: else it counts the hold for ever.
func TestObserverHearsOfLoss(t *testing.T) {
	told := ends(t)
	require.Len(t, told, 1)
	require.ErrorIs(t, told[0], holdfast.ErrLost)
	defer defence.ToldEnds.Without(t)()
	require.Empty(t, ends(t), "control")
}

// TestLossWithoutALogger: a client that was given no Logger tells a loss to the program's default logger.
func TestLossWithoutALogger(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	for _, opts := range []*holdfast.Options{nil, {}, {Logger: slog.New(slog.DiscardHandler)}} {
		said := new(bytes.Buffer)
		program := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(said, nil)))
		c, err := holdfast.New(rdb, opts)
		slog.SetDefault(program)
		require.NoError(t, err)
		name := uniqueName(t)
		hold := lock(t, rlock.New(c, name))
		require.NoError(t, rdb.Del(t.Context(), name).Err())
		require.ErrorIs(t, hold.Extend(t.Context(), holdfast.DefaultLease), holdfast.ErrLost)
		require.NoError(t, c.Close(t.Context()))
		if opts != nil && opts.Logger != nil {
			require.Empty(t, said.String())
			continue
		}
		require.Contains(t, said.String(), "level=WARN msg=\"lock lost\" kind=rlock name="+name)
	}
}
