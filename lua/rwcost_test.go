package lua_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

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
	t.Helper()
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
	const walk = "for _, field in ipairs(redis.call('HKEYS', 'x')) do redis.call('PTTL', field) end\n"
	rdb := redistest.Start(t).Client(t, unhurried)
	for _, c := range readWriteCosts() {
		fillReadWrite(t, rdb, "readers", 10000)
		calls, elements := costOf(t, rdb, c.script.Name(), walk+c.script.Text(), c.keys, c.args)
		require.Greater(t, calls, mostReadWriteCalls, c.script.Name())
		require.Greater(t, elements, mostReadWriteElements, c.script.Name())
	}
}

// declaredOnly stands in front of a script and refuses it the keys that it does not declare, in the words of
// a server that insists on that.
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
