package lua_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// A script of a semaphore makes so many calls at most, and gives and gets so many elements, beside
// what it replies. Most of them are for a hundred grants, or for a thousand places of those who are
// out of reach.
const (
	mostSemaphoreCalls    = 3000
	mostSemaphoreElements = 12000
)

// semaphoreCosts are calls of all scripts of a semaphore.
func semaphoreCosts() []costly {
	const owner, lease, keep, claim, until = "a:h0", 30000, 60000, 2000, "9007199254740991"
	keys := []any{"x", "permits", "token", "line", "places", "wants", "channel", "counts"}
	return []costly{
		{lua.SemAcquire, 1, keys, []any{20000, owner, 1, lease, keep, "1", 15000, claim, "PUBLISH", until}},
		{lua.SemAcquire, 1, keys, []any{20000, "b:h1", 2, lease, keep, "0", 0, claim, "PUBLISH", until}},
		{lua.SemJoin, 1, keys, []any{20000, 15000, until, claim, "PUBLISH", keep, "b:h1", "b:h2"}},
		{lua.SemRelease, 1, keys, []any{20000, owner, "PUBLISH", claim, keep}},
		{lua.SemRenew, 1, keys[:3], []any{20000, owner, lease, keep, 1}},
		{lua.SemPoll, 1, keys, []any{20000, "a", "PUBLISH", claim, keep, 15000, "", owner}},
		{lua.SemSet, 1, keys, []any{20000, "PUBLISH", claim, keep, until, "call", 0}},
		{lua.SemState, 1, keys, []any{20000}},
		{lua.SemForce, 1, keys, []any{20000, owner, "PUBLISH", claim, keep, ""}},
	}
}

// TestSemaphoreCostsOfMany: what a script does for the greatest hold grows with its permits, in few calls.
func TestSemaphoreCostsOfMany(t *testing.T) {
	const n, mostCalls, mostElements = 10000, 120, 25000
	rdb := redistest.Start(t).Client(t, unhurried)
	require.NoError(t, rdb.Set(t.Context(), "x", n, 0).Err())
	costs := semaphoreCosts()
	for _, c := range []costly{costs[0], costs[4], costs[3]} { // it is acquired, renewed and given back
		switch c.script {
		case lua.SemAcquire:
			c.args[2] = n
		case lua.SemRenew:
			c.args[4] = n
		}
		calls, elements := costOf(t, rdb, c.script.Name(), c.script.Text(), c.keys, c.args)
		t.Logf("proof: permits: %s of %d: %d calls, %d elements", c.script.Name(), n, calls, elements)
		require.LessOrEqual(t, calls, mostCalls)
		require.LessOrEqual(t, elements, mostElements)
	}
	require.Zero(t, rdb.ZCard(t.Context(), "permits").Val())
	require.Equal(t, "10000", rdb.Get(t.Context(), "x").Val())
}

// fillPermits makes ten thousand permits that are out, by a lease that ends so much later, and as many
// waiters of a client, whose places end so much later; 0: none.
func fillPermits(t *testing.T, rdb *redis.Client, out, wait time.Duration) {
	t.Helper()
	const fill = `local time = redis.call('TIME')
		local now = time[1] * 1000
		for i = 0, 9999 do
			if ARGV[1] ~= '0' then redis.call('ZADD', 'permits', now + ARGV[1], 'a:h' .. i) end
			if ARGV[2] ~= '0' then redis.call('ZADD', 'line', i, 'w:h' .. i) redis.call('ZADD', 'places', now + ARGV[2], 'w:h' .. i) end
		end
		return 1`
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	require.NoError(t, rdb.Eval(t.Context(), fill, nil, out.Milliseconds(), wait.Milliseconds()).Err())
}

// semaphoreStates are what stands there beside what a script is about.
var semaphoreStates = map[string]struct {
	out, wait time.Duration
	free      int
}{
	"ten thousand permits":            {time.Hour, 0, 0},
	"ten thousand leases that ended":  {-time.Hour, 0, 0},
	"ten thousand who wait":           {time.Hour, time.Hour, 0},
	"permits for them all":            {-time.Hour, time.Hour, 20000},
	"permits for who is out of reach": {0, time.Hour, 20000},
}

// TestSemaphoreCosts: what a script does is bounded, however many permits are out or have ended, and
// however many wait. (Redisson's cannot take back 8000 that have ended.)
func TestSemaphoreCosts(t *testing.T) {
	rdb := redistest.Start(t).Client(t, unhurried)
	for state, s := range semaphoreStates {
		sub := rdb.Subscribe(t.Context(), "channel:w")
		if s.free > 0 && s.out == 0 {
			require.NoError(t, sub.Close())
		} else {
			_, err := sub.Receive(t.Context())
			require.NoError(t, err)
		}
		for _, c := range append(semaphoreCosts(), costsOf(lua.Inspect)...) {
			fillPermits(t, rdb, s.out, s.wait)
			require.NoError(t, rdb.Set(t.Context(), "x", s.free, 0).Err())
			calls, elements := costOf(t, rdb, c.script.Name(), c.script.Text(), c.keys, c.args)
			require.LessOrEqual(t, calls, mostSemaphoreCalls, "%s beside %s", c.script.Name(), state)
			require.LessOrEqual(t, elements, mostSemaphoreElements, "%s beside %s", c.script.Name(), state)
		}
		_ = sub.Close()
	}
}

// TestSemaphoreCostsControl: a walk through all permits is seen.
func TestSemaphoreCostsControl(t *testing.T) {
	rdb := redistest.Start(t).Client(t, unhurried)
	const walk = "for _, permit in ipairs(redis.call('ZRANGE', 'permits', 0, -1)) do redis.call('ZSCORE', 'permits', permit) end\n"
	for _, c := range semaphoreCosts() {
		fillPermits(t, rdb, time.Hour, 0)
		calls, elements := costOf(t, rdb, c.script.Name(), walk+c.script.Text(), c.keys, c.args)
		require.Greater(t, calls, mostSemaphoreCalls, c.script.Name())
		require.Greater(t, elements, mostSemaphoreElements, c.script.Name())
	}
}
