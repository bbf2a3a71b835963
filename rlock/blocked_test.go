package rlock_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// looker is a client that looks at long waits longWait.
type looker struct {
	*holdfast.Client
	log   *kindtest.Log
	heard chan event.SelfBlock
}

func newLooker(t testing.TB, rdb redis.UniversalClient, long time.Duration) *looker {
	l := &looker{log: &kindtest.Log{}, heard: make(chan event.SelfBlock, 100)}
	l.Client = newClient(t, rdb, &holdfast.Options{
		LongWait: long, Logger: l.log.Logger(),
		Observer: &event.Observer{SelfBlocked: func(s event.SelfBlock) { l.heard <- s }},
	})
	return l
}

func (l *looker) hears(t *testing.T) event.SelfBlock {
	return kindtest.Receive(t, "somebody says so", l.heard)
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
	return func() { cancel(); group.Wait() }
}

const longWait = 60 * time.Millisecond

// TestWaitsForItself: a caller that waits for its own client's lock is told once where both are; for certain with an owner.
func TestWaitsForItself(t *testing.T) {
	t.Parallel()
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
	eventually(t, "the log has it", func() bool { return len(l.log.Lines()) > 0 && l.log.Lines()[0] != "" })
	line := l.log.Lines()[0]
	for _, part := range []string{
		`msg="a caller waits for a lock that its own client holds"`, name, "rlock_test.waitsFor.func", "rlock_test.TestWaitsForItself",
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

// TestToldOnce: waits with a limit that come again and again are told once for one holder, and once more for the next.
func TestToldOnce(t *testing.T) {
	t.Parallel()
	l := newLooker(t, redistest.Shared(t).Client(t), longWait)
	m := rlock.New(l.Client, uniqueName(t))
	comeAgain := func(h *holdfast.Hold) {
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

// TestWaitsForOthers is the control: behind another client no wait is for itself. Then the same client waits for itself.
func TestWaitsForOthers(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client(t)
	l, name := newLooker(t, rdb, longWait), uniqueName(t)
	other := newClient(t, rdb, nil)
	theirs := lock(t, rlock.New(other, name))
	defer waitsFor(t.Context(), rlock.New(l.Client, name), 3)()
	mine := rlock.New(l.Client, name+" mine")
	h := lock(t, mine)
	defer waitsFor(t.Context(), mine, 1)() // began after the others
	require.Equal(t, mine.Name(), l.hears(t).Name)
	require.Empty(t, l.heard)
	unlock(t, theirs, h)
}

// TestNobodyLooks: with LongWait off there is no word of any wait. The control is beside it.
func TestNobodyLooks(t *testing.T) {
	t.Parallel()
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
	require.Equal(t, []string{""}, off.log.Lines())
}

// TestLongWaitsSendNothing: who waits for long, and has nothing else, costs Redis nothing for that.
func TestLongWaitsSendNothing(t *testing.T) {
	t.Parallel()
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

// says waits until Redis has the label of a client.
func says(t *testing.T, rdb redis.UniversalClient, c *holdfast.Client, label string) {
	eventually(t, "the label is written", func() bool { return rdb.Get(t.Context(), keys.Label(c.ID())).Val() == label })
	left := rdb.PTTL(t.Context(), keys.Label(c.ID())).Val()
	require.Positive(t, left)
	require.LessOrEqual(t, left, 90*time.Second)
}

// TestLabel: who holds or waits says who it is until it is closed, and errors name it.
func TestLabel(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client(t)
	name := uniqueName(t)
	holder := newClient(t, rdb, &holdfast.Options{Label: "holder über 1"})
	waiter := newClient(t, rdb, &holdfast.Options{Label: "waiter", LongWait: longWait})
	idle := newClient(t, rdb, &holdfast.Options{Label: "idle"})
	h := lock(t, rlock.New(holder, name))
	says(t, rdb, holder, "holder über 1")

	eventually(t, "who is refused knows by whom the next time", func() bool {
		err := refused(t.Context(), t, rlock.New(idle, name).TryLock)
		return strings.Contains(err.Error(), h.Owner()+" (holder über 1), whose lease")
	})
	err := refused(t.Context(), t, rlock.New(newClient(t, rdb, nil), name).TryLock)
	require.NotContains(t, err.Error(), "über", "a client without a label asks for none")
	_, err = rlock.New(holder, name).TryLock(t.Context())
	require.ErrorContains(t, err, h.Owner()+" (holder über 1), whose lease")

	defer waitsFor(t.Context(), rlock.New(waiter, name), 1)()
	says(t, rdb, waiter, "waiter")
	eventually(t, "who waits for long knows for whom", func() bool {
		err := refused(t.Context(), t, rlock.New(waiter, name).TryLock)
		return strings.Contains(err.Error(), h.Owner()+" (holder über 1), whose lease")
	})
	require.Zero(t, rdb.Exists(t.Context(), keys.Label(idle.ID())).Val(), "it has nothing, and waited for nothing")
	require.NoError(t, holder.Close(t.Context()))
	require.Zero(t, rdb.Exists(t.Context(), keys.Label(holder.ID())).Val())
}

// TestLabelOfAnybody: what stands at a client's key is in errors only if a client could say it of itself, for
// errors come to terminals and logs. The control is a label that one could.
func TestLabelOfAnybody(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client(t)
	waiter := newClient(t, rdb, &holdfast.Options{Label: "waiter", LongWait: longWait})
	// waits has a holder with that label waited for, and returns what its waiters are told.
	waits := func(label string) (told func() string) {
		name, holder := uniqueName(t), newClient(t, rdb, nil)
		require.NoError(t, rdb.Set(t.Context(), keys.Label(holder.ID()), label, time.Minute).Err())
		h := lock(t, rlock.New(holder, name))
		stop := waitsFor(t.Context(), rlock.New(waiter, name), 1)
		t.Cleanup(func() {
			stop()
			require.NoError(t, h.Unlock(context.Background()))
		})
		return func() string {
			_, err := rlock.New(waiter, name).TryLock(t.Context())
			require.ErrorContains(t, err, h.Owner())
			return err.Error()
		}
	}
	bad := []string{"\x1b[31mred", strings.Repeat("x", 201)}
	var told []func() string
	for _, label := range bad {
		told = append(told, waits(label))
	}
	for _, good := range []string{"plain", "plain, and read after all others"} {
		told := waits(good)
		eventually(t, "its label was read", func() bool { return strings.Contains(told(), "("+good+")") })
	}
	for i, label := range bad {
		require.NotContains(t, told[i](), label)
	}
}

func TestBadLabel(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	for label, part := range map[string]string{
		strings.Repeat("x", 201): "Options.Label has 201 bytes; use at most 200",
		"a\nb":                   `Options.Label is "a\nb", and a character in it cannot be printed; use letters`,
		"\x1b[31m":               `Options.Label is "\x1b[31m"`,
		"\xff":                   "which is not UTF-8; use text",
		"a\u202eb":               "cannot be printed",
	} {
		tells(t, kindtest.Err(holdfast.New(rdb, &holdfast.Options{Label: label})), holdfast.ErrInvalid, part)
	}
	_, err := holdfast.New(rdb, &holdfast.Options{LongWait: time.Millisecond})
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	require.ErrorContains(t, err, "Options.LongWait is 1ms; use at least 10ms, 0 for the default of 10s, or a negative duration to turn it off")
	c, err := holdfast.New(rdb, &holdfast.Options{Label: strings.Repeat("x", 200), LongWait: -1})
	require.NoError(t, err)
	require.NoError(t, c.Close(t.Context()))
}
