package latch_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/lua"
)

// proxied is the latch for a client behind a proxy.
func (l *lab) proxied(hooks ...redis.Hook) (*latch.Latch, *faultproxy.Proxy) {
	rdb, proxy := kindtest.Behind(l.TB, redistest.Shared(l.TB).Addr(), 100*time.Millisecond, hooks...)
	return latch.New(newClient(l.TB, rdb, nil), l.name), proxy
}

// TestAtMostOnce: each operation meets each fault, and is repeated. The controls are those of TestLateRepeat.
func TestAtMostOnce(t *testing.T) {
	kindtest.EachFault(t, func(t *testing.T, fault faultproxy.Action) {
		l := newLab(t)
		m, proxy := l.proxied()
		kindtest.Load(t, l.rdb, lua.LatchSet, lua.LatchCount, lua.LatchDelete)
		_, err := m.Delete(t.Context()) // the client knows the server's clock
		require.NoError(t, err)
		hit := func(s *lua.Script) { kindtest.Strike(t, proxy, s, fault) }
		hit(lua.LatchSet)
		set(t, m, 3)
		hit(lua.LatchCount)
		count(t, m, 2)
		require.Equal(t, "2", l.rdb.Get(t.Context(), l.name).Val())
		hit(lua.LatchDelete)
		deleted, err := m.Delete(t.Context())
		require.NoError(t, err)
		require.True(t, deleted)
		for _, key := range l.rdb.Keys(t.Context(), "*"+l.name+"*").Val() {
			require.Positive(t, l.rdb.PTTL(t.Context(), key).Val(), key)
		}
	})
}

// TestCannotListen: whoever waits, and whose subscription gets no answer, looks.
func TestCannotListen(t *testing.T) {
	l := newLab(t)
	m, proxy := l.proxied()
	set(t, l.process(), 1)
	subscribes := proxy.On(faultproxy.Command("SUBSCRIBE"), 0, faultproxy.BlackHole)
	kindtest.Load(t, l.rdb, lua.LatchLook)
	looks := proxy.On(faultproxy.Script(lua.LatchLook.Hash()), 2, faultproxy.HoldReply) // the last before it sleeps
	c := waiting(t.Context(), m, holdfast.Wait(patience/2))
	<-subscribes.Fired()
	<-looks.Fired()
	count(t, l.process(), 0)
	looks.Clear()
	open(t, c)
}

// TestCallsAreRemembered: the server knows a call for longer than its client may repeat it.
func TestCallsAreRemembered(t *testing.T) {
	l := newLab(t)
	const budget = 10 * time.Hour
	m := latch.New(newClient(t, l.rdb, &holdfast.Options{RetryBudget: budget}), l.name)
	set(t, m, 2)
	count(t, m, 1)
	require.NoError(t, kindtest.Err(m.Delete(t.Context())))
	calls := l.rdb.Keys(t.Context(), "holdfast_latch:{"+l.name+"}:*").Val()
	require.Len(t, calls, 3)
	for _, call := range calls {
		require.Greater(t, l.rdb.PTTL(t.Context(), call).Val(), budget+budget/2, call)
	}
}

// late has a count-down of a latch of so many be repeated when others have counted it down to nothing and set it
// anew. It returns what the repeat and the others were told, and what is left of the new one.
func late(t *testing.T, from int, hooks ...redis.Hook) (told []int, left string) {
	l := newLab(t)
	m, proxy := l.proxied(hooks...)
	count(t, m, 0) // the server knows the script, and the client the server's clock
	set(t, m, from)
	rule := proxy.On(func(args []string) bool {
		return strings.EqualFold(args[0], "evalsha") && len(args) > 4 && strings.Contains(args[4], "holdfast_latch:")
	}, 1, faultproxy.DropReply)
	counted := make(chan int, 1)
	proxy.DelayRequest(func(args []string) bool { return rule.Count() > 0 && strings.EqualFold(args[0], "evalsha") }, 1, time.Hour)
	go func() {
		n, err := m.CountDown(context.Background())
		assert.NoError(t, err)
		counted <- n
	}()
	other := l.process()
	eventually(t, "counted, and the answer is lost", func() bool { return l.left() == from-1 })
	for l.left() > 0 {
		n, err := other.CountDown(t.Context())
		require.NoError(t, err)
		told = append(told, n)
	}
	set(t, other, 3)
	proxy.Clear() // the repeat comes now
	return append(told, <-counted), l.rdb.Get(t.Context(), l.name).Val()
}

// left is what the key of the latch says.
func (l *lab) left() int {
	n, _ := l.rdb.Get(context.Background(), l.name).Int()
	return n
}

// A repeat of a call does not count when the latch was opened and set anew, and is told what the first was told:
// one of the callers that count is told 0, and not two or none.
func TestLateRepeat(t *testing.T) {
	const memory = "if known then return {1, tonumber(known), clock} end"
	for from, want := range map[int][]int{1: {0}, 2: {0, 1}, 3: {1, 0, 2}} {
		told, left := late(t, from)
		require.Equal(t, want, told)
		require.Equal(t, "3", left)
	}
	// The controls: the server that does not remember it, and one that remembers the call and not its answer.
	_, left := late(t, 1, mutant.Hook(lua.LatchCount, memory, ""))
	require.Equal(t, "2", left)
	told, _ := late(t, 1, mutant.Hook(lua.LatchCount, "tonumber(known)", "tonumber(call('GET', name))"))
	require.Equal(t, []int{3}, told, "nobody is told that it is open")
}

// overtaken has a request of an operation on a latch that is not to be changed by it be kept by the
// network, so that its repeat gets the answer. Then the latch changes hands, and the request arrives.
func overtaken(t *testing.T, op string, hooks ...redis.Hook) (left string) {
	l := newLab(t)
	m, proxy := l.proxied(hooks...)
	other := l.process()
	_, err := m.Delete(t.Context()) // the client knows the server's clock
	require.NoError(t, err)
	rule := proxy.KeepRequest(func(args []string) bool {
		return len(args) > 4 && strings.Contains(args[4], "holdfast_latch:")
	}, 1, time.Hour)
	switch op {
	case "set":
		set(t, other, 1)
		did, err := m.Set(t.Context(), 3)
		require.NoError(t, err)
		require.False(t, did)
		count(t, other, 0)
	case "count":
		count(t, m, 0)
		set(t, other, 2)
	case "delete":
		did, err := m.Delete(t.Context())
		require.NoError(t, err)
		require.False(t, did)
		set(t, other, 2)
	}
	require.Equal(t, 1, rule.Count())
	proxy.Deliver()
	return l.rdb.Get(t.Context(), l.name).Val()
}

// A call that returned because it had nothing to do does nothing later, neither to a latch set since nor to one that has opened.
func TestOvertaken(t *testing.T) {
	require.Empty(t, overtaken(t, "set"), "a latch that nobody was told of")
	require.Equal(t, "2", overtaken(t, "count"))
	require.Equal(t, "2", overtaken(t, "delete"))

	// The controls: the server that remembers only calls which did something. A request that the
	// network keeps for too long refuses itself, so on a slow machine it takes more than one try.
	for _, c := range []struct {
		op, untouched string
		script        *lua.Script
		only          string
	}{
		{"set", "", lua.LatchSet, "outcome == '1'"},
		{"count", "2", lua.LatchCount, "stands"},
		{"delete", "2", lua.LatchDelete, "outcome == '1'"},
	} {
		remembers := "call('SET', this, outcome, 'PX', kept)"
		hook := mutant.Hook(c.script, remembers, "if "+c.only+" then "+remembers+" end")
		harmed := false
		for until := time.Now().Add(patience); !harmed && time.Now().Before(until); {
			harmed = overtaken(t, c.op, hook) != c.untouched
		}
		require.True(t, harmed, c.op)
	}
}

// TestPanickingHook: a hook panics while the client looks for those who wait. The panic goes on in them, where they can recover
// from it, and not in a goroutine of the library, where it would end the process. Afterwards the latch works.
func TestPanickingHook(t *testing.T) {
	l := newLab(t)
	rdb := redistest.Shared(t).Client(t)
	var panics atomic.Bool // while somebody looks at a latch
	rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		for _, cmd := range cmds {
			if args := cmd.Args(); panics.Load() && len(args) > 1 && args[1] == lua.LatchLook.Hash() {
				panic("hook")
			}
		}
		return send()
	}))
	m := latch.New(newClient(t, rdb, nil), l.name)
	set(t, m, 1)
	first := make(chan any, 1)
	go func() {
		defer func() { first <- recover() }()
		_ = m.Wait(context.Background())
	}()
	eventually(t, "it listens", func() bool { return l.listening() == 1 })
	panics.Store(true)
	require.PanicsWithValue(t, "hook", func() { _, _ = m.Count(t.Context()) })
	require.PanicsWithValue(t, "hook", func() { _ = m.Wait(t.Context()) })
	require.Equal(t, "hook", <-first)
	panics.Store(false)
	c := waiting(t.Context(), m)
	count(t, m, 0)
	open(t, c)
}
