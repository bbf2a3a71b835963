package lua_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// costing stands in front of a script and makes it count its calls, and what goes into and comes out of them. A search in a
// list counts as far as it goes. What DEL frees does not count, as each is freed once, nor who hears a message.
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
	redistest.EachProgram(t, func(t *testing.T, p redistest.Program) {
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

// TestCostsControl: in each of the calls a look at all of the hash is seen, and so is a walk through it.
func TestCostsControl(t *testing.T) {
	level.ForAll(t)
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

// A script of the fair lock makes so many calls, and gives and gets so many elements, at most,
// whatever stands in the queue: about three times what it looks at in one piece.
const (
	fairMostCalls    = 700
	fairMostElements = 3000

	// fairLong is in milliseconds: nothing ends while a busy machine measures.
	fairLong = 3600000
)

// fairCost is a queue of which scripts are counted.
type fairCost struct {
	t      *testing.T
	rdb    *redis.Client
	keys   []any
	before string // stands in front of each script
}

func newFairCost(t *testing.T, rdb *redis.Client) *fairCost {
	return &fairCost{t: t, rdb: rdb, keys: []any{"x", "token:{x}", "queue:{x}", "deadlines:{x}", "channel:{x}"}}
}

func (c *fairCost) run(s *lua.Script, args ...any) (calls, elements int) {
	return costOf(c.t, c.rdb, s.Name(), c.before+s.Text(), c.keys, args)
}

// fill puts owners of a client in the queue, or of Redisson's, which end so late.
func (c *fairCost) fill(n int, owner func(i int) string, left time.Duration, half float64) {
	ctx, now := c.t.Context(), float64(c.rdb.Time(c.t.Context()).Val().Add(left).UnixMilli())
	for i := 0; i < n; {
		var owners []any
		var places []redis.Z
		for range min(n-i, 1000) {
			owners, places = append(owners, owner(i)), append(places, redis.Z{Score: now + half, Member: owner(i)})
			i++
		}
		require.NoError(c.t, c.rdb.RPush(ctx, c.keys[2].(string), owners...).Err())
		require.NoError(c.t, c.rdb.ZAdd(ctx, c.keys[3].(string), places...).Err())
	}
}

// fairCosts are the states of a queue of n. Places that stand do so longer than the test takes, but those of
// a stopped client, which must not have been put off lately.
var fairCosts = map[string]func(c *fairCost, n int){
	"live": func(c *fairCost, n int) { c.fill(n, of("live"), time.Hour, 0) },
	"dead": func(c *fairCost, n int) {
		c.fill(n, of("dead"), time.Hour, 0)
		c.fill(n, of("live"), time.Hour, 0)
	},
	"ended": func(c *fairCost, n int) {
		c.fill(n, of("dead"), -time.Second, 0)
		c.fill(n, of("live"), time.Hour, 0)
	},
	"stopped": func(c *fairCost, n int) {
		c.fill(n, of("stopped"), 10*time.Second, 0)
		c.fill(n, of("live"), time.Hour, 0)
		ended := -9e15 + float64(c.rdb.Time(c.t.Context()).Val().UnixMilli()) - 10
		c.rdb.ZAdd(c.t.Context(), c.keys[3].(string), redis.Z{Score: ended, Member: "stopped:h9999999"})
	},
	"cancelled": func(c *fairCost, n int) {
		c.fill(1, of("live"), time.Hour, 0)
		c.fill(n, of("gone"), time.Hour, 0)
		for i := range n - 1 {
			c.rdb.ZAdd(c.t.Context(), c.keys[3].(string), redis.Z{Score: 1, Member: of("gone")(i)})
		}
		c.fill(n, func(i int) string { return of("live")(i + 1) }, time.Hour, 0)
	},
	"mixed": func(c *fairCost, n int) {
		c.fill(n, func(i int) string {
			if i%2 == 0 {
				return "java:" + strconv.Itoa(i)
			}
			return of("live")(i)
		}, time.Hour, 0.5)
	},
	"mixed once": func(c *fairCost, n int) { c.fill(n, of("live"), time.Minute, 0.5) },
	"java": func(c *fairCost, n int) {
		c.fill(n, func(i int) string { return "java:" + strconv.Itoa(i) }, time.Hour, 0)
	},
}

func of(client string) func(int) string {
	return func(i int) string { return client + ":h" + strconv.Itoa(i) }
}

// TestFairCosts: what a script does at the server is bounded however many wait, live, dead, cancelled or mixed. What it takes
// out for good, once for each, may come first: each state is looked at by every script when two releases have gone before,
// which make few calls for each that they take out.
func TestFairCosts(t *testing.T) {
	redistest.EachProgram(t, func(t *testing.T, p redistest.Program) {
		rdb := redistest.Start(t, redistest.Exec(p.Path)).Client(t, unhurried)
		for _, client := range []string{"live", "stopped"} {
			redistest.Subscribed(t, rdb, "channel:{x}:"+client)
		}
		c := newFairCost(t, rdb)
		for state, fill := range fairCosts {
			for _, n := range []int{10, 100, 10000} {
				require.NoError(t, rdb.FlushAll(t.Context()).Err())
				fill(c, n)
				c.mustBeBounded(state, n)
			}
		}
		for _, n := range []int{10, 100, 10000} {
			require.NoError(t, rdb.FlushAll(t.Context()).Err())
			fairCosts["live"](c, n)
			fillHash(0)(t, rdb, n)
			for _, what := range []string{"enqueue", "join", "try", "poll", "poll of a", "state"} {
				c.mustCostLittle(what, "behind what is no lock", n, fairScripts(c, n)[what])
			}
		}
	})
}

func (c *fairCost) mustBeBounded(state string, n int) {
	for range 2 { // the second meets those that stood behind the first place
		require.NoError(c.t, c.rdb.Del(c.t.Context(), "x").Err())
		require.NoError(c.t, c.rdb.HSet(c.t.Context(), "x", "holder:h1", 1).Err())
		calls, elements := c.run(lua.FairRelease, "holder:h1", "PUBLISH", fairLong, fairLong)
		require.LessOrEqual(c.t, calls, fairMostCalls+2*n, "release, %s, %d", state, n)
		require.LessOrEqual(c.t, elements, fairMostElements+9*n, "release, %s, %d", state, n)
	}
	for what, run := range fairScripts(c, n) {
		c.mustCostLittle(what, state, n, run)
	}
}

func (c *fairCost) mustCostLittle(what, state string, n int, run func() (calls, elements int)) {
	c.t.Helper()
	calls, elements := run()
	require.LessOrEqual(c.t, calls, fairMostCalls, "%s, %s, %d", what, state, n)
	require.LessOrEqual(c.t, elements, fairMostElements, "%s, %s, %d", what, state, n)
	c.t.Logf("proof: fair costs: %s, %s of %d: %d calls, %d elements", what, state, n, calls, elements)
}

// TestLeaversDoNotStay: a long queue behind a head that stays is not longer than twice those who wait, these keep their
// order, and each that leaves costs little on the average. Control: nothing is taken out of the middle.
func TestLeaversDoNotStay(t *testing.T) {
	level.ForAll(t)
	const n = 2400
	rdb := redistest.Start(t).Client(t, unhurried)
	c := newFairCost(t, rdb)
	leave := func(script string) (longest, elements int) {
		ctx, stay := t.Context(), []string{}
		require.NoError(t, rdb.FlushAll(ctx).Err())
		rdb.HSet(ctx, "x", "holder:h1", 1)
		fairCosts["live"](c, n)
		for i := range n {
			if i%8 == 0 {
				stay = append(stay, of("live")(i))
				continue
			}
			_, cost := costOf(t, rdb, "leave", script, c.keys, []any{of("live")(i), "PUBLISH", fairLong, fairLong})
			elements += cost
			if more := int(rdb.LLen(ctx, c.keys[2].(string)).Val()) - 2*(n-i+len(stay)); i > n/2 {
				longest = max(longest, more)
			}
		}
		require.Equal(t, rdb.LLen(ctx, c.keys[2].(string)).Val(), rdb.ZCard(ctx, c.keys[3].(string)).Val())
		list := rdb.LRange(ctx, c.keys[2].(string), 0, -1).Val()
		require.Equal(t, stay, slices.DeleteFunc(list, func(owner string) bool { return !slices.Contains(stay, owner) }))
		return longest, elements / n
	}
	text := lua.FairRelease.Text()
	longest, elements := leave(text)
	t.Logf("proof: a leave costs %d elements on the average", elements)
	require.LessOrEqual(t, longest, 1024)
	require.LessOrEqual(t, elements, 200)
	longest, _ = leave(strings.Replace(text, "    head()\n    compact()\n", "    head()\n", 1))
	require.Greater(t, longest, 1024, "control")
}

// fairScripts are what is done with a queue of n. Each leaves it as it may.
func fairScripts(c *fairCost, n int) map[string]func() (calls, elements int) {
	ctx, i := c.t.Context(), 0
	free := func() { c.rdb.Del(ctx, "x") }
	ask := func(place int) (int, int) {
		i++
		return c.run(lua.FairAcquire, fmt.Sprintf("new:h%d", i), 30000, fairLong, "0", place, fairLong, "PUBLISH")
	}
	return map[string]func() (int, int){
		"enqueue": func() (int, int) {
			c.rdb.HSet(ctx, "x", "holder:h1", 1)
			return ask(15000)
		},
		"join": func() (int, int) {
			c.rdb.HSet(ctx, "x", "holder:h1", 1)
			return c.run(lua.FairJoin, "9000000000000000", fairLong, "PUBLISH", fairLong, 15000, "new:h01", "new:h02", "new:h03")
		},
		"join at a free lock": func() (int, int) {
			free()
			return c.run(lua.FairJoin, "9000000000000000", fairLong, "PUBLISH", fairLong, 15000, "new:h04", "new:h05")
		},
		"try":               func() (int, int) { return ask(0) },
		"try a free lock":   func() (int, int) { free(); return ask(0) },
		"ask for free lock": func() (int, int) { free(); return ask(15000) },
		"release": func() (int, int) {
			free()
			c.rdb.HSet(ctx, "x", "holder:h2", 1)
			return c.run(lua.FairRelease, "holder:h2", "PUBLISH", fairLong, fairLong)
		},
		"leave from the middle": func() (int, int) {
			middle := c.rdb.LIndex(ctx, "queue:{x}", int64(n/2)).Val()
			return c.run(lua.FairRelease, middle, "PUBLISH", fairLong, fairLong)
		},
		"poll":      func() (int, int) { return c.run(lua.FairPoll, "live", "PUBLISH", fairLong, fairLong, 15000) },
		"poll of a": func() (int, int) { return c.run(lua.FairPoll, "live", "PUBLISH", fairLong, fairLong, 15000, "live:h7") },
		"state":     func() (int, int) { return c.run(lua.FairState) },
		"inspect": func() (int, int) {
			look := costsOf(lua.Inspect)[0]
			keys := append([]any{c.keys[0], c.keys[1], c.keys[2], c.keys[3]}, look.keys[4:]...)
			return costOf(c.t, c.rdb, "inspect", c.before+lua.Inspect.Text(), keys, look.args)
		},
	}
}

// TestFairCostsControl: scripts that walk through all of the queue are seen, and so is each that looks at all of it at once.
func TestFairCostsControl(t *testing.T) {
	level.ForAll(t)
	rdb := redistest.Start(t).Client(t, unhurried)
	c := newFairCost(t, rdb)
	text := strings.NewReplacer("local look = 128", "local look = 100000", "cut(some, look)",
		"return").Replace(lua.FairPoll.Text())
	fairCosts["mixed"](c, 10000)
	require.NoError(t, rdb.HSet(t.Context(), "x", "holder:h1", 1).Err())
	calls, elements := c.run(lua.New("fair_poll", text, 5), "live", "PUBLISH", fairLong, fairLong, 15000)
	require.Greater(t, calls, fairMostCalls)
	require.Greater(t, elements, fairMostElements)
	c.before = "redis.call('LRANGE', KEYS[3], 0, -1)\n"
	for what, run := range fairScripts(c, 10000) {
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		fairCosts["live"](c, 10000)
		_, elements := run()
		require.Greater(t, elements, fairMostElements, what)
	}
}
