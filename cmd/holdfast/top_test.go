package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/exp/teatest/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/live"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
)

// seen is the model, whose last screen a test can read.
type seen struct {
	*topModel
	mu   sync.Mutex // guards last
	last string
}

func (s *seen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	_, cmd := s.topModel.Update(msg)
	return s, cmd
}

func (s *seen) View() tea.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = strings.Join(s.lines(), "\n")
	return s.topModel.View()
}

func (s *seen) screenNow() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// top is a run of the screen, before a server.
type top struct {
	*testing.T
	*teatest.TestModel
	model *seen
}

// watching starts the screen as the command does, but for the terminal.
func watching(t *testing.T, srv *redistest.Server, change func(*topConfig)) *top {
	t.Helper()
	return watchingAt(t, "redis://"+srv.Addr(), srv.Client(t), change)
}

// watchingAt starts it before a server of any form.
func watchingAt(t *testing.T, at string, rdb redis.UniversalClient, change func(*topConfig)) *top {
	t.Helper()
	return watchingAll(t, []redis.UniversalClient{rdb}, func(c *topConfig) {
		c.addresses = []address{newAddress(at)}
		if change != nil {
			change(c)
		}
	})
}

// watchingAll starts it before several.
func watchingAll(t *testing.T, clients []redis.UniversalClient, change func(*topConfig)) *top {
	t.Helper()
	c := topConfig{sort: "waiters", out: &bytes.Buffer{}, share: 100}
	c.every.Duration = 20 * time.Millisecond
	change(&c)
	pic, err := c.picture(t.Context(), clients)
	require.NoError(t, err)
	d := newDesk(pic, c.every.Duration)
	w := &top{T: t, model: &seen{topModel: newTopModel(c, d)}}
	w.TestModel = teatest.NewTestModel(t, w.model, teatest.WithInitialTermSize(100, 24))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); d.run(ctx, w.Send) }()
	t.Cleanup(func() {
		_ = w.Quit()
		w.WaitFinished(t, teatest.WithFinalTimeout(patience))
		cancel()
		<-done
	})
	return w
}

var namedKeys = map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp, "home": tea.KeyHome,
	"end": tea.KeyEnd, "pgdown": tea.KeyPgDown, "backspace": tea.KeyBackspace}

// press sends keys: a name, or each letter of a text.
func (w *top) press(keys ...string) *top {
	for _, key := range keys {
		if code, ok := namedKeys[key]; ok {
			w.Send(tea.KeyPressMsg{Code: code})
			continue
		}
		for _, r := range key {
			w.Send(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
	return w
}

// shows waits until all of the texts are on the screen, in their order.
func (w *top) shows(texts ...string) {
	w.Helper()
	shown := func() bool {
		rest := w.model.screenNow()
		for _, text := range texts {
			at := strings.Index(rest, text)
			if at < 0 {
				return false
			}
			rest = rest[at+len(text):]
		}
		return true
	}
	if !assert.Eventually(w, shown, patience, 5*time.Millisecond) {
		w.Fatalf("not shown: %q, but:\n%s", texts, w.model.screenNow())
	}
}

// hides waits until a text is on the screen no more.
func (w *top) hides(text string) {
	w.Helper()
	hidden := func() bool { return !strings.Contains(w.model.screenNow(), text) }
	if !assert.Eventually(w, hidden, patience, 5*time.Millisecond) {
		w.Fatalf("shown: %q in\n%s", text, w.model.screenNow())
	}
}

// contended is a server with a lock that is waited for, an older one that is not, and one that two clients read.
func contended(t *testing.T) (srv *redistest.Server, holds map[string]*holdfast.Hold) {
	t.Helper()
	srv = redistest.Start(t)
	c, other := kindtest.NewClient(t, srv.Client(t), nil), kindtest.NewClient(t, srv.Client(t), nil)
	holds = map[string]*holdfast.Hold{}
	for _, l := range []struct {
		as   string
		lock holdfast.Locker
	}{
		{"idle", rlock.New(c, "idle")}, {"busy", fairlock.New(c, "busy")}, {"read", rwlock.New(c, "read").RLocker()},
		{"read by another", rwlock.New(other, "read").RLocker()},
	} {
		holds[l.as] = kindtest.Lock(t, l.lock)
	}
	kindtest.Begin(t.Context(), t, fairlock.New(other, "busy").Lock)
	return srv, holds
}

// TestTopSortsAndFilters: the most contended is first, then the oldest; keys change that.
func TestTopSortsAndFilters(t *testing.T) {
	t.Parallel()
	srv, _ := contended(t)
	w := watching(t, srv, nil)
	w.shows("3 locks, 1 waited for", "WAIT▾", "▸ busy", "idle", "read", "? help")
	w.press("o").shows("HELD▾", "▸ idle", "busy", "read")
	w.press("r").shows("HELD▴", "read", "busy", "idle")
	w.press("n").shows("NAME▾", "▸ busy", "idle", "read")
	w.press("/", "x*y", "backspace", "backspace", "backspace", "rea").shows("filter: rea")
	w.press("enter").shows("1 of 3 locks with rea", "▸ read")
	w.hides("busy")
	w.press("/", "backspace", "backspace", "backspace", "[bi]*", "enter")
	w.shows("2 of 3 locks with [bi]*", "▸ busy", "idle")
	w.press("/", "zz", "enter").shows("No name fits [bi]*zz. Esc clears the filter.")
	w.press("esc").shows("3 locks", "▸ busy")
	w.press("?").shows("Keys", "waiters", "Columns", "GRANTS")
	w.press("esc", "s").shows("WAIT▾", "▸ busy")
	w.press("q")
	w.WaitFinished(t, teatest.WithFinalTimeout(patience))
}

// TestTopFollows: the cursor stays with its lock when others come before it, and the first place is a place.
func TestTopFollows(t *testing.T) {
	t.Parallel()
	srv, _ := contended(t)
	w := watching(t, srv, func(c *topConfig) { c.sort = "name" })
	w.shows("▸ busy", "idle")
	w.press("down").shows("▸ idle")
	c := kindtest.NewClient(t, srv.Client(t), nil)
	kindtest.Lock(t, rlock.New(c, "another"))
	w.shows("  another", "  busy", "▸ idle")
	w.press("home").shows("▸ another")
	kindtest.Lock(t, rlock.New(c, "a"))
	w.shows("▸ a ", "  another")
	w.press("end").shows("▸ read")
}

// TestTopInspects: all of a lock, in place of the list or beside it, as it changes.
func TestTopInspects(t *testing.T) {
	t.Parallel()
	srv, holds := contended(t)
	w := watching(t, srv, nil)
	w.shows("▸ busy")
	w.press("enter")
	w.shows("esc goes back", "busy\n", "kind       fairlock", "held by    "+holds["busy"].Owner(), "waiting    1")
	w.hides("idle")
	w.Send(tea.WindowSizeMsg{Width: 160, Height: 30})
	w.shows("▸ busy", "idle", "│ kind       fairlock")
	w.press("down").shows("▸ idle", "│ held by    "+holds["idle"].Owner())
	require.NoError(t, holds["idle"].Unlock(t.Context()))
	w.shows("free; it was a lock within the last hour")
	w.press("i").hides("│")
}

// TestTopEnds: a hold is ended after a question that shows owner and token, and others keep theirs.
func TestTopEnds(t *testing.T) {
	t.Parallel()
	srv, holds := contended(t)
	w := watching(t, srv, nil)
	w.shows("▸ busy")
	w.press("x")
	w.shows("End the hold of "+holds["busy"].Owner()+" on busy", fmt.Sprint(holds["busy"].Token()), "y: end it")
	w.press("n").shows("not confirmed; nothing was changed")
	require.NotZero(t, exists(t, srv.Client(t), "busy"))

	w.press("n", "/", "read", "enter").shows("▸ read")
	w.press("x").shows("It is holder 1 of 2")
	first := holds["read"].Owner()
	if !strings.Contains(w.model.screenNow(), first) {
		first = holds["read by another"].Owner()
	}
	w.press("down").shows("It is holder 2 of 2")
	w.press("up").shows("End the hold of "+first, "It is holder 1 of 2")
	w.press("y").shows("read: the hold of " + first + " was ended.")
	left := srv.Client(t).HGetAll(t.Context(), "read").Val()
	require.Len(t, left, 2, "the mode, and the other reader")
	require.NotContains(t, left, first)
	w.press("x").shows("End the hold of ", "on read")
}

// TestTopEndsNoOther: the lock is granted to somebody else while the question is on the screen. Nothing
// is changed, and it is said. The control is TestTopEnds, where the same keys end the hold.
func TestTopEndsNoOther(t *testing.T) {
	t.Parallel()
	srv, holds := contended(t)
	w := watching(t, srv, func(c *topConfig) { c.sort = "oldest" })
	w.shows("▸ idle")
	w.press("x").shows("End the hold of " + holds["idle"].Owner())
	require.NoError(t, holds["idle"].Unlock(t.Context()))
	next := kindtest.Lock(t, rlock.New(kindtest.NewClient(t, srv.Client(t), nil), "idle"))
	w.press("y").shows(`"idle" was not unlocked, and nothing was changed: somebody else has it`)
	require.Equal(t, map[string]string{next.Owner(): "1"}, srv.Client(t).HGetAll(t.Context(), "idle").Val())
	require.NoError(t, next.Unlock(t.Context()))
	w.press("o", "/", "idle", "enter").shows("▸ idle")
	w.press("x").shows(`"idle": nobody has it`)
}

// TestTopReadOnly: no key ends a hold, and none is offered.
func TestTopReadOnly(t *testing.T) {
	t.Parallel()
	srv, _ := contended(t)
	w := watching(t, srv, func(c *topConfig) { c.readOnly = true })
	w.shows("read-only", "▸ busy", "space pause")
	require.NotContains(t, w.model.screenNow(), "end a hold")
	w.press("x").shows("--read-only: nothing is ended from here")
	w.press("y")
	w.press("n").shows("NAME▾")
	require.EqualValues(t, 3, exists(t, srv.Client(t), "busy", "idle", "read"))
}

// TestTopPauses: the servers are asked nothing until the user goes on, and then what has changed is seen.
func TestTopPauses(t *testing.T) {
	t.Parallel()
	srv, holds := contended(t)
	w := watching(t, srv, nil)
	w.shows("▸ busy", "idle")
	w.press(" ").shows("paused")
	// What was under way comes to its end; after that no script is run.
	rdb := srv.Client(t)
	calls := func() int64 {
		n := srv.CommandCalls(t)
		return n["evalsha_ro"] + n["evalsha"] + n["scan"]
	}
	before := int64(-1)
	eventually(t, func() bool { was := before; before = calls(); return was == before }, "nothing is asked")
	require.NoError(t, holds["idle"].Unlock(t.Context()))
	rdb.Del(t.Context(), "redisson_lock_token:{idle}")
	w.press("/", "idle", "enter").shows("1 of 3 locks with idle", "▸ idle", holds["idle"].Owner()[:8])
	w.press(" ").hides("▸ idle")
}

// TestTopOutage: the screen stays while the server is silent, says so, and goes on with it.
func TestTopOutage(t *testing.T) {
	t.Parallel()
	srv, _ := contended(t)
	c := topConfig{}
	w := watching(t, srv, func(o *topConfig) { c = *o })
	w.shows("▸ busy")
	srv.Kill()
	w.shows("▸ busy", "asking again: connection refused; no answer from Redis at "+c.addresses[0].String())
	srv.Restart()
	w.hides("asking again")
}

// TestTopTwoServers: rows of several servers stand beside each other, and a hold is ended at its own.
func TestTopTwoServers(t *testing.T) {
	one, other := redistest.Start(t), redistest.Start(t)
	const owner = "11111111-2222-4333-8444-555555555555:h1"
	for _, srv := range []*redistest.Server{one, other} {
		srv.Client(t).HSet(t.Context(), "ledger", owner, 1)
		srv.Client(t).Set(t.Context(), "redisson_lock_token:{ledger}", 5000, time.Hour)
	}
	c := topConfig{connection: connection{addresses: []address{newAddress(one.Addr()), newAddress(other.Addr())}}, sort: "name", out: &bytes.Buffer{}}
	pic, err := live.New([]redis.UniversalClient{one.Client(t), other.Client(t)}, live.Options{})
	require.NoError(t, err)
	require.NoError(t, pic.FindAll(t.Context(), nil))
	m := newTopModel(c, newDesk(pic, time.Second))
	m.refresh(true)
	text := strings.Join(m.lines(), "\n")
	has(t, text, "▸!1/ledger", " !2/ledger")
	m.press(tea.KeyPressMsg{Code: tea.KeyDown})
	key := m.selected
	d := look(t.Context(), pic, key)
	said := endHold(t.Context(), pic, key, (&question{detail: d}).grant())
	require.Contains(t, string(said), "the hold of "+owner+" was ended")
	require.NotZero(t, exists(t, one.Client(t), "ledger"))
	require.Zero(t, exists(t, other.Client(t), "ledger"))
}

// TestTopOneDown: while one of several masters is down, the screen shows what the others have, and which one is missing.
func TestTopOneDown(t *testing.T) {
	t.Cleanup(func() { // after the clients have closed
		require.Eventually(t, func() bool { return kindtest.Goroutines("pool.(*ConnPool).tryDial") == 0 }, patience, 5*time.Millisecond)
	})
	one, other := redistest.Start(t), redistest.Start(t)
	kindtest.Lock(t, rlock.New(kindtest.NewClient(t, one.Client(t), nil), "ledger"))
	clients := []redis.UniversalClient{one.Client(t), other.Client(t)}
	w := watchingAll(t, clients, func(c *topConfig) {
		c.addresses = []address{newAddress(one.Addr()), newAddress(other.Addr())}
		other.Kill()
	})
	w.shows("names ", " old, missing: master 2", "1/ledger", "asking again: ", other.Addr())
	other.Restart()
	w.hides("missing")
	w.shows("names ", " old", "1/ledger")
}

// TestTopOnSentinel: after a fail-over it shows what there is at the new master, which another one takes there.
func TestTopOnSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	c := kindtest.NewClient(t, s.Client(t), nil)
	kindtest.Lock(t, rlock.New(c, "before"))
	address := "redis+sentinel://" + strings.Join(s.Addrs(), ",") + "/" + redistest.SentinelMaster
	rdb, err := connect(address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	w := watchingAt(t, address, rdb, nil)
	w.shows("before")
	kindtest.Lock(t, rlock.New(kindtest.NewClient(t, s.Failover(t).Client(t), nil), "after"))
	w.shows("after")
}
