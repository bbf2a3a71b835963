package lua_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// A script of a semaphore makes so many calls at most, and gives and gets so many elements, beside what it replies. Most of
// them are for a hundred grants, or for a thousand places of those who are out of reach.
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
		{lua.SemJoin, 1, keys, []any{20000, until, claim, "PUBLISH", keep, 15000, "b:h1", "b:h2"}},
		{lua.SemRelease, 1, keys, []any{20000, owner, "PUBLISH", claim, keep}},
		{lua.SemRenew, 1, keys[:3], []any{20000, owner, lease, keep, 1}},
		{lua.SemPoll, 1, keys, []any{20000, "a", "PUBLISH", claim, keep, 15000, owner}},
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

// fillPermits makes 10,000 permits that are out, and as many waiters of a client, which end so much later; 0: none.
func fillPermits(t *testing.T, rdb *redis.Client, out, wait time.Duration) {
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

// TestSemaphoreCosts: a script's work is bounded, however many permits are out or ended, or wait. (Redisson's fails at 8000.)
func TestSemaphoreCosts(t *testing.T) {
	rdb := redistest.Start(t).Client(t, unhurried)
	for state, s := range semaphoreStates {
		sub := redistest.Subscribed(t, rdb, "channel:w")
		if s.free > 0 && s.out == 0 {
			require.NoError(t, sub.Close())
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
	level.ForAll(t)
	rdb := redistest.Start(t).Client(t, unhurried)
	const walk = "for _, permit in ipairs(redis.call('ZRANGE', 'permits', 0, -1)) do redis.call('ZSCORE', 'permits', permit) end\n"
	for _, c := range semaphoreCosts() {
		fillPermits(t, rdb, time.Hour, 0)
		calls, elements := costOf(t, rdb, c.script.Name(), walk+c.script.Text(), c.keys, c.args)
		require.Greater(t, calls, mostSemaphoreCalls, c.script.Name())
		require.Greater(t, elements, mostSemaphoreElements, c.script.Name())
	}
}

// A script of a read-write lock makes so many calls at most, and gives and gets so many elements, however
// many read or wait. Most of them are for the state, which tells of 1024 readers, each with a lease.
const (
	mostReadWriteCalls    = 2300
	mostReadWriteElements = 7000
)

// readWriteStates are what stands at the lock "x" beside n fields: made by a script, with n as its argument.
var readWriteStates = map[string]string{
	"readers": `redis.call('HSET', 'x', 'mode', 'read')
		for i = 1, ARGV[1] do
			redis.call('HSET', 'x', 'r:h' .. i, 1)
			redis.call('SET', '{x}:r:h' .. i .. ':rwlock_timeout:1', 1, 'PX', 3600000)
		end`,
	"readers that died": `redis.call('HSET', 'x', 'mode', 'read')
		for i = 1, ARGV[1] do redis.call('HSET', 'x', 'r:h' .. i, 1) end`,
	"readers of Redisson's": `redis.call('HSET', 'x', 'mode', 'read')
		for i = 1, ARGV[1] do redis.call('HSET', 'x', 'r:' .. i, i * i) end`,
	"a writer that reads": `redis.call('HSET', 'x', 'mode', 'write', 'a:h0:write', 1)
		for i = 1, ARGV[1] do redis.call('HSET', 'x', 'r:h' .. i, 1) end`,
	"a writer that has left": `redis.call('HSET', 'x', 'mode', 'write', 'a:h00:write', 'till1')
		for i = 1, ARGV[1] do redis.call('HSET', 'x', 'r:h' .. i, 1) end`,
	"writers that wait": `for i = 1, ARGV[1] do redis.call('ZADD', 'writers', 1e15 + i, 'w:h' .. i) end`,
}

// readWriteCosts are calls of the scripts of a read-write lock, and of the one that looks at any.
func readWriteCosts() (list []costly) {
	for _, c := range costs() {
		if strings.HasPrefix(c.script.Name(), "rw_") || c.script == lua.Inspect {
			list = append(list, c)
		}
	}
	return list
}

func fillReadWrite(t *testing.T, rdb *redis.Client, state string, n int) {
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	require.NoError(t, rdb.Eval(t.Context(), readWriteStates[state]+" return 1", nil, n).Err())
}

// TestReadWriteCosts: what a script of a read-write lock does at the server is bounded, also where it only
// looks, however many read, are dead, or wait. The numbers are those up to which scripts look at each.
func TestReadWriteCosts(t *testing.T) {
	rdb := redistest.Start(t).Client(t, unhurried)
	for state := range readWriteStates {
		for _, n := range []int{10, 127, 256, 1024, 10000} {
			for _, c := range readWriteCosts() {
				fillReadWrite(t, rdb, state, n)
				calls, elements := costOf(t, rdb, c.script.Name(), c.script.Text(), c.keys, c.args)
				t.Logf("proof: read-write costs: %s beside %d of %s: %d calls, %d elements", c.script.Name(), n, state, calls, elements)
				require.LessOrEqual(t, calls, mostReadWriteCalls, "%s beside %d of %s", c.script.Name(), n, state)
				require.LessOrEqual(t, elements, mostReadWriteElements, "%s beside %d of %s", c.script.Name(), n, state)
			}
		}
	}
}

// TestReadWriteCostsControl: a walk through all readers is seen.
func TestReadWriteCostsControl(t *testing.T) {
	level.ForAll(t)
	const walk = "for _, field in ipairs(redis.call('HKEYS', 'x')) do redis.call('PTTL', field) end\n"
	rdb := redistest.Start(t).Client(t, unhurried)
	for _, c := range readWriteCosts() {
		fillReadWrite(t, rdb, "readers", 10000)
		calls, elements := costOf(t, rdb, c.script.Name(), walk+c.script.Text(), c.keys, c.args)
		require.Greater(t, calls, mostReadWriteCalls, c.script.Name())
		require.Greater(t, elements, mostReadWriteElements, c.script.Name())
	}
}

// declaredOnly stands in front of a script and refuses it undeclared keys, in the words of a server that insists on them.
const declaredOnly = `
local server, declared, keyless = redis, {}, {TIME = 1, PUBSUB = 1, PUBLISH = 1, SPUBLISH = 1, publish = 1}
for _, key in ipairs(KEYS) do declared[key] = true end
local function undeclared(command, ...)
  local last = (command == 'DEL' or command == 'EXISTS') and select('#', ...) or 1
  for i = 1, keyless[command] and 0 or last do
    if not declared[(select(i, ...))] then return {err = 'ERR script tried accessing undeclared key'} end
  end
end
local redis = {
  call = function(...)
    local refused = undeclared(...)
    if refused then error(refused.err) end
    return server.call(...)
  end,
  pcall = function(...) return undeclared(...) or server.pcall(...) end,
  error_reply = server.error_reply,
}
`

// TestDeclaredKeys: no script fails on a server that insists on declared keys, whoever reads.
func TestDeclaredKeys(t *testing.T) {
	rdb := redistest.Start(t).Client(t, unhurried)
	for state := range readWriteStates {
		for _, c := range append(costs(), semaphoreCosts()...) {
			fillReadWrite(t, rdb, state, 10)
			if strings.HasPrefix(c.script.Name(), "sem_") {
				require.NoError(t, rdb.Del(t.Context(), "x").Err())
			}
			s := lua.New(c.script.Name(), declaredOnly+c.script.Text(), len(c.keys))
			if _, err := lua.Run(t.Context(), rdb, s.Call(slices.Concat(c.keys, c.args)...)); err != nil {
				require.NotContains(t, err.Error(), "undeclared", "%s beside %s", c.script.Name(), state)
			}
		}
	}
	// The control: it is seen.
	s := lua.New("", declaredOnly+"return redis.call('GET', 'another')", 0)
	_, err := lua.Run(t.Context(), rdb, s.Call())
	require.ErrorContains(t, err, "undeclared")
}
