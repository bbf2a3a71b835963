package lua_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

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

// TestFairCosts: what a script does at the server is bounded however many wait, live, dead,
// cancelled or mixed. What it takes out for good, once for each, may come first: each state is
// looked at by every script when two releases have gone before, which make few calls for each that
// they take out.
func TestFairCosts(t *testing.T) {
	for _, p := range redistest.Programs(t) {
		t.Run(p.Name, func(t *testing.T) {
			rdb := redistest.Start(t, redistest.Exec(p.Path)).Client(t, unhurried)
			for _, client := range []string{"live", "stopped"} {
				sub := rdb.Subscribe(t.Context(), "channel:{x}:"+client)
				defer sub.Close()
				_, err := sub.Receive(t.Context())
				require.NoError(t, err)
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
			return c.run(lua.FairJoin, 15000, "9000000000000000", fairLong, "PUBLISH", fairLong, "new:h01", "new:h02", "new:h03")
		},
		"join at a free lock": func() (int, int) {
			free()
			return c.run(lua.FairJoin, 15000, "9000000000000000", fairLong, "PUBLISH", fairLong, "new:h04", "new:h05")
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
		"poll": func() (int, int) { return c.run(lua.FairPoll, "live", "PUBLISH", fairLong, fairLong, 15000) },
		"poll of a": func() (int, int) {
			return c.run(lua.FairPoll, "live", "PUBLISH", fairLong, fairLong, 15000,
				"live:h7")
		},
		"state": func() (int, int) { return c.run(lua.FairState) },
		"inspect": func() (int, int) {
			look := costsOf(lua.Inspect)[0]
			keys := append([]any{c.keys[0], c.keys[1], c.keys[2], c.keys[3]}, look.keys[4:]...)
			return costOf(c.t, c.rdb, "inspect", c.before+lua.Inspect.Text(), keys, look.args)
		},
	}
}

// TestFairCostsControl: scripts that walk through all of the queue are seen, and so is each that
// looks at all of it at once.
func TestFairCostsControl(t *testing.T) {
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
