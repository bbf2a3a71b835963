package lua_test

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// costing stands in front of a script and makes it count its calls, and what goes into and comes
// out of them. A search in a list counts as far as it goes. What DEL frees does not count, as each
// is freed once, nor who hears a message.
const costing = `
local server, cost = redis, {0, 0}
local function counted(how)
  return function(command, ...)
    cost[1] = cost[1] + 1
    if command == 'LREM' then
      local n, at = server.call('LLEN', (...)), server.call('LPOS', (...), (select(3, ...))) or 0
      cost[2] = cost[2] + ((select(2, ...)) + 0 < 0 and n - at or at)
    end
    local reply = how(command, ...)
    cost[2] = cost[2] + select('#', ...) + (type(reply) == 'table' and #reply or 1)
    server.call('HSET', 'cost', 'calls', cost[1], 'elements', cost[2])
    return reply
  end
end
local redis = {call = counted(server.call), pcall = counted(server.pcall), error_reply = server.error_reply}
`

// unhurried waits for a script that counts millions of elements, however busy the machine is.
func unhurried(o *redis.Options) { o.ReadTimeout = 10 * time.Minute }

// costOf runs a script and tells how many calls it made, and how many elements those took and gave.
func costOf(t *testing.T, rdb *redis.Client, name, text string, keys, args []any) (calls, elements int) {
	require.NoError(t, rdb.Del(t.Context(), "cost").Err())
	_, err := lua.Run(t.Context(), rdb, lua.New(name, costing+text, len(keys)).Call(slices.Concat(keys, args)...))
	if !lua.IsError(err, "HOLDFAST") { // says that it is no lock
		require.NoError(t, err, name)
	}
	cost := rdb.HGetAll(t.Context(), "cost").Val()
	calls, _ = strconv.Atoi(cost["calls"])
	elements, _ = strconv.Atoi(cost["elements"])
	return calls, elements
}

// For each lock that a plain script looks at it makes so many calls, and gives and gets so many
// elements, at most: all that stands in a hash that may be a lock.
const (
	mostCalls    = 12
	mostElements = 300
)

// costly is a call of a script of one lock, or of many.
type costly struct {
	script *lua.Script
	locks  int
	keys   []any
	args   []any
}

// costs are calls of all scripts that know no queue. The lock is "x".
func costs() []costly {
	const owner, lease, keep, token, channel = "a:h0", 30000, 60000, "token", "channel"
	list := []costly{
		{lua.Acquire, 1, []any{"x", token}, []any{owner, lease, keep, "0"}},
		{lua.Acquire, 1, []any{"x", token}, []any{owner, lease, keep, "1", 16, "9007199254740991"}},
		{lua.AcquireBeside, 1, []any{"x", token}, []any{owner, lease, keep, "0"}},
		{lua.AcquireBeside, 1, []any{"x", token}, []any{owner, lease, keep, "1", 16, "9007199254740991"}},
		{lua.Recount, 1, []any{"x"}, []any{owner, 2, lease}},
		{lua.Release, 1, []any{"x", channel}, []any{owner, "PUBLISH"}},
		{lua.Release, 1, []any{"x", channel}, []any{owner, "SPUBLISH"}},
		{lua.Leave, 1, []any{"x", channel}, []any{owner, 1000, "SPUBLISH"}},
		{lua.LeaveQueue, 1, []any{"x", channel, "queue"}, []any{owner, 1000, "SPUBLISH"}},
		{lua.Taken, 1, []any{token, "x"}, []any{owner}},
		{lua.Renew, 1, []any{"x", token}, []any{owner, lease, keep}},
		{lua.Pass, 1, []any{"x", token, channel}, []any{owner, lease, keep, "PUBLISH", 16}},
		{lua.Pass, 1, []any{"x", token, channel}, []any{owner, lease, keep, "SPUBLISH", 10000}},
		{lua.Vote, 1, []any{"x", token}, []any{owner, lease, keep, 1, "1"}},
		{lua.Force, 1, []any{"x", token, channel}, []any{owner, "PUBLISH", keep, "7"}},
		{lua.State, 1, []any{"x", token}, nil},
		{lua.RwRead, 1, []any{"x", token, "writers", "lease"}, []any{owner, lease, keep, "9007199254740991", "", ""}},
		{lua.RwReadRenew, 1, []any{"x", token, "lease"}, []any{owner, lease, keep, 0}},
		{lua.RwReadRelease, 1, []any{"x", channel, "lease"}, []any{owner, "PUBLISH"}},
		{lua.RwWrite, 1, []any{"x", token, "writers"}, []any{owner, lease, keep, "0", "9007199254740991", 5000}},
		{lua.RwWriteRelease, 1, []any{"x", channel, "writers"}, []any{owner, "PUBLISH"}},
		{lua.RwLeave, 1, []any{"x", channel}, []any{owner, 1000, "PUBLISH"}},
		{lua.RwState, 1, []any{"x", token, "writers"}, nil},
		{lua.RwForce, 1, []any{"x", channel}, []any{"-", "PUBLISH", owner}},
		{lua.RwForceWriter, 2, []any{"x", channel, "writers", token}, []any{owner, "PUBLISH", ""}},
		{lua.LatchSet, 1, []any{"y", "call", "counts"}, []any{3, lease, "9007199254740991", 1000, "PUBLISH", channel}},
		{lua.LatchCount, 1, []any{"y", "call", "counts"}, []any{0, lease, "9007199254740991", 1000, "PUBLISH", channel}},
		{lua.LatchDelete, 1, []any{"y", "call", "counts"}, []any{0, 0, "9007199254740991", 1000, "PUBLISH", channel}},
		{lua.LatchLook, 1, []any{"y", "counts"}, nil},
		{lua.ElectionAnnounce, 1, []any{"x", "said", channel}, []any{owner, "7", "value", keep, "SPUBLISH"}},
		{lua.ElectionLeader, 1, []any{"x", "said"}, nil},
		{lua.ElectionRenew, 1, []any{"x", token, "said"}, []any{owner, lease, keep}},
		// in a queue of nobody: TestFairCosts has the others
		{lua.ElectionRelease, 1, []any{"x", token, "queue", "deadlines", channel, "said", "changes"},
			[]any{owner, "PUBLISH", 2000, keep}},
		{lua.ForceOwner, 2, []any{"x", token, "queue", "deadlines", channel, "said", "changes"},
			[]any{owner, "PUBLISH", 2000, keep, ""}},
		// as much as four others, where eight of each are told
		{lua.Inspect, 4, []any{"x", token, "queue", "deadlines", "said", "permits", "line", "places", "wants", "writers", "{x}"},
			[]any{8, "NUMSUB", channel, "readers", "permits", "latch"}},
		{lua.Fence, 1, []any{"guard", "x"}, []any{"7", "HSET", "field", 1}},
	}
	for _, n := range []int{1, 10, 100} {
		many := costly{lua.RenewMany, n, nil, nil}
		for range n {
			many.keys = append(many.keys, "x", token)
			many.args = append(many.args, 3, owner, lease, keep)
		}
		list = append(list, many, manyCosts(n))
	}
	return list
}

// costsOf are the calls of one script.
func costsOf(s *lua.Script) []costly {
	return slices.DeleteFunc(costs(), func(c costly) bool { return c.script != s })
}

// manyCosts is a call of the script for many, with as many acquisitions as releases, or one more.
func manyCosts(n int) costly {
	c, taken := costly{lua.Many, n, nil, nil}, (n+1)/2
	c.args = append(c.args, taken)
	for i := range n {
		if i < taken {
			c.keys = append(c.keys, "x", "token")
			c.args = append(c.args, "a:h0", 30000, 60000, "0", 16, "9007199254740991")
		} else {
			c.keys = append(c.keys, "x", "channel")
			c.args = append(c.args, "a:h0", "PUBLISH")
		}
	}
	return c
}

// costHashes are what stands at a lock's name, beside n fields of others.
var costHashes = map[string]func(t *testing.T, rdb *redis.Client, n int){
	"nothing": func(*testing.T, *redis.Client, int) {},
	"the owner": func(t *testing.T, rdb *redis.Client, _ int) {
		require.NoError(t, rdb.HSet(t.Context(), "x", "a:h0", 1).Err())
	},
	"the owner and others": fillHash(0),
	"others":               fillHash(1),
}

func fillHash(first int) func(t *testing.T, rdb *redis.Client, n int) {
	return func(t *testing.T, rdb *redis.Client, n int) {
		const fill = "for i = ARGV[1], ARGV[1] + ARGV[2] - 1 do redis.call('HSET', 'x', 'a:h' .. i, 1) end return 1"
		require.NoError(t, rdb.Eval(t.Context(), fill, nil, first, n).Err())
	}
}

// TestCosts: what a script of a plain lock, of a quorum's master or of a guard does at the server
// is bounded, whoever stands in the hash: nobody, the owner, or thousands of others' fields.
func TestCosts(t *testing.T) {
	for _, p := range redistest.Programs(t) {
		t.Run(p.Name, func(t *testing.T) {
			rdb := redistest.Start(t, redistest.Exec(p.Path)).Client(t, unhurried)
			for _, c := range costs() {
				for state, fill := range costHashes {
					for _, n := range []int{10, 100, 10000} {
						require.NoError(t, rdb.FlushAll(t.Context()).Err())
						fill(t, rdb, n)
						calls, elements := costOf(t, rdb, c.script.Name(), c.script.Text(), c.keys, c.args)
						require.LessOrEqual(t, calls, mostCalls*c.locks, "%s beside %s, %d", c.script.Name(), state, n)
						require.LessOrEqual(t, elements, mostElements*c.locks, "%s beside %s, %d", c.script.Name(),
							state, n)
					}
				}
			}
		})
	}
}

// TestCostsControl: in each of the calls a look at all of the hash is seen, and so is a walk
// through it.
func TestCostsControl(t *testing.T) {
	const (
		look = "for _ = 1, math.max(1, #KEYS / 2) do redis.call('HKEYS', 'x') end\n"
		walk = "for _, field in ipairs(redis.call('HKEYS', 'x')) do redis.call('HGET', 'x', field) end\n"
	)
	rdb := redistest.Start(t).Client(t, unhurried)
	for _, c := range costs() {
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		fillHash(0)(t, rdb, 10000)
		_, elements := costOf(t, rdb, c.script.Name(), look+c.script.Text(), c.keys, c.args)
		require.Greater(t, elements, mostElements*c.locks, c.script.Name())
		fillHash(0)(t, rdb, 10000)
		calls, _ := costOf(t, rdb, c.script.Name(), walk+c.script.Text(), c.keys, c.args)
		require.Greater(t, calls, mostCalls*c.locks, c.script.Name())
	}
}

// TestCostsOfAll: no script is without a row.
func TestCostsOfAll(t *testing.T) {
	have := []string{"fair_acquire", "fair_join", "fair_release", "fair_poll", "fair_state"} // of TestFairCosts
	for _, c := range append(costs(), semaphoreCosts()...) {
		have = append(have, c.script.Name())
	}
	files, err := filepath.Glob("*.lua")
	require.NoError(t, err)
	for _, file := range files {
		require.Contains(t, have, strings.TrimSuffix(file, ".lua"))
	}
}
