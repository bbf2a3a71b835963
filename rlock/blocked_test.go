package rlock_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// noted is a log that tests read while it is written.
type noted struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (n *noted) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *noted) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

func (n *noted) lines() []string { return strings.Split(strings.TrimSpace(n.String()), "\n") }

// looker is a client that looks at long waits longWait.
type looker struct {
	*holdfast.Client
	log   *noted
	heard chan holdfast.SelfBlockEvent
}

func newLooker(t testing.TB, rdb redis.UniversalClient, long time.Duration) *looker {
	t.Helper()
	l := &looker{log: &noted{}, heard: make(chan holdfast.SelfBlockEvent, 100)}
	l.Client = newClient(t, rdb, &holdfast.Options{
		LongWait: long, Logger: slog.New(slog.NewTextHandler(l.log, nil)),
		Observer: &holdfast.Observer{SelfBlocked: func(s holdfast.SelfBlockEvent) { l.heard <- s }},
	})
	return l
}

func (l *looker) hears(t *testing.T) holdfast.SelfBlockEvent {
	t.Helper()
	select {
	case s := <-l.heard:
		return s
	case <-time.After(patience):
		require.Fail(t, "nobody said so")
	}
	return holdfast.SelfBlockEvent{}
}

// waitsFor has a name waited for until the returned function is called.
func waitsFor(ctx context.Context, m *rlock.Mutex, n int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			if h, err := m.Lock(ctx); err == nil {
				_ = h.Unlock(ctx)
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
	}
}

const longWait = 60 * time.Millisecond

// TestWaitsForItself: who locks under a plain context what its client has is told so once: where both
// were. Under another owner's context it is certain.
func TestWaitsForItself(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	l, name := newLooker(t, rdb, longWait), uniqueName(t)
	m := rlock.New(l.Client, name)
	h := lock(t, m)
	stop := waitsFor(t.Context(), m, 5)
	s := l.hears(t)
	require.Equal(t, name, s.Name)
	require.Equal(t, "rlock", s.Kind)
	require.Equal(t, h.Owner(), s.Owner)
	require.Equal(t, h.Token(), s.Token)
	require.False(t, s.Sure)
	require.GreaterOrEqual(t, s.Waited, longWait)
	require.GreaterOrEqual(t, s.Held, longWait)
	require.Positive(t, s.Waits)
	require.Contains(t, s.Waiting, "rlock_test.waitsFor.func")
	require.Contains(t, s.Waiting, " blocked_test.go:")
	require.Contains(t, s.Holding, "rlock_test.TestWaitsForItself blocked_test.go:")
	eventually(t, "the log has it", func() bool { return len(l.log.lines()) > 0 && l.log.lines()[0] != "" })
	line := l.log.lines()[0]
	for _, part := range []string{
		`msg="a lock is waited for that this client holds itself"`, name, "rlock_test.waitsFor.func", "rlock_test.TestWaitsForItself",
		"lock under hold.Context()", h.Owner(),
	} {
		require.Contains(t, line, part)
	}
	stop()
	unlock(t, h)

	again := lock(t, m)
	stop = waitsFor(holdfast.WithOwner(again.Context()), m, 1)
	s = l.hears(t)
	require.True(t, s.Sure)
	require.Equal(t, again.Token(), s.Token)
	stop()
	unlock(t, again)
	require.Empty(t, l.heard)
}

// TestToldOnce: waits with a limit that come again and again for one holder are told once, and those for
// the next holder once more.
func TestToldOnce(t *testing.T) {
	l := newLooker(t, redistest.Shared(t).Client(t), longWait)
	m := rlock.New(l.Client, uniqueName(t))
	comeAgain := func(h *holdfast.Hold) {
		t.Helper()
		for told := 0; told < 3; { // in which each is long enough to be told of
			if _, err := m.Lock(t.Context(), holdfast.Wait(4*longWait)); len(l.heard) > 0 || told > 0 {
				require.ErrorIs(t, err, holdfast.ErrNotAcquired)
				told++
			}
		}
		require.Equal(t, h.Token(), l.hears(t).Token)
		unlock(t, h)
	}
	for range 2 {
		h := lock(t, m)
		comeAgain(h)
	}
	require.Empty(t, l.heard)
}

// TestWaitsForOthers is the control: behind another client nobody waits for itself, nor where the lock goes from
// hand to hand. Then the same client waits for itself, and says so.
func TestWaitsForOthers(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	l, name := newLooker(t, rdb, longWait), uniqueName(t)
	other := newClient(t, rdb, nil)
	theirs := lock(t, rlock.New(other, name))
	defer waitsFor(t.Context(), rlock.New(l.Client, name), 3)()

	busy := rlock.New(l.Client, name+" busy") // whose waits are long, and no holder's time is
	done := make(chan struct{})
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if h, err := busy.Lock(t.Context()); err == nil {
					_ = h.Unlock(t.Context())
				}
			}
		})
	}
	mine := rlock.New(l.Client, name+" mine")
	h := lock(t, mine)
	defer waitsFor(t.Context(), mine, 1)() // began after the others
	require.Equal(t, mine.Name(), l.hears(t).Name)
	close(done)
	group.Wait()
	require.Empty(t, l.heard)
	unlock(t, theirs, h)
}

// TestNobodyLooks: with LongWait off there is no word of any wait. The control is beside it.
func TestNobodyLooks(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	off, on := newLooker(t, rdb, -1), newLooker(t, rdb, longWait)
	for _, l := range []*looker{off, on} {
		m := rlock.New(l.Client, uniqueName(t)+l.ID())
		h := lock(t, m)
		defer waitsFor(t.Context(), m, 1)()
		defer func() { _ = h.Unlock(context.Background()) }()
	}
	on.hears(t)
	require.Empty(t, off.heard)
	require.Equal(t, []string{""}, off.log.lines())
}

// TestLongWaitsSendNothing: who waits for long, and has nothing else, costs Redis nothing for that.
func TestLongWaitsSendNothing(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	l := newLooker(t, rdb, longWait)
	m := rlock.New(l.Client, "a")
	h := lock(t, m)
	stop := waitsFor(t.Context(), m, 3)
	l.hears(t)
	calls := srv.CommandCalls(t)
	// SET and GET of the script that locks are counted, too: of the name's one attempt.
	require.LessOrEqual(t, calls["set"], int64(2), "%v", calls)
	require.LessOrEqual(t, calls["get"], int64(2), "%v", calls)
	keys := rdb.Keys(t.Context(), "holdfast_client*").Val()
	require.Empty(t, keys)
	unlock(t, h)
	stop()
}

// TestToldOnceControl: without the holder's memory the same one is told of again and again.
func TestToldOnceControl(t *testing.T) {
	defer defence.ToldOnce.Without(t)()
	l := newLooker(t, redistest.Shared(t).Client(t), longWait)
	m := rlock.New(l.Client, uniqueName(t))
	h := lock(t, m)
	defer waitsFor(t.Context(), m, 1)()
	for range 2 {
		require.Equal(t, h.Token(), l.hears(t).Token)
	}
}
