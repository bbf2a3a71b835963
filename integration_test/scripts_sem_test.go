package integration_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lua"
)

// The keys of a semaphore beside the one with its name, spelled out because the spelling is a promise to
// Redisson, and to other versions.
const (
	scriptPermits    = "{orders:42}:timeout"
	scriptSemQueue   = "holdfast_semaphore_queue:{orders:42}"
	scriptPlaces     = "holdfast_semaphore_places:{orders:42}"
	scriptWants      = "holdfast_semaphore_wants:{orders:42}"
	scriptSemChannel = "redisson_sc:{orders:42}"
)

// semaphoreKeys stand in rows for the keys.
var semaphoreKeys = map[string]string{
	"PERMITS": scriptPermits, "LINE": scriptSemQueue, "PLACES": scriptPlaces, "WANTS": scriptWants,
}

// permitted is what a row expects of a semaphore, beside how many permits are free, which is as in
// [latched].
type permitted struct {
	// permits that are out with what is left of their leases, as in "ttl:": "u:h7=30000 u:h7/2=30000". Then who
	// waits, in the order of arrival: "line:u:h8". Then the places: "place:u:h8=15000", or "place:u:h8=handed"
	// of who was handed permits, and of a client whose claim has ended. Then how many they want: "wants:u:h8=2".
	permits string
}

func (p permitted) checkPermits(ctx context.Context, rdb *redis.Client, span clock) error {
	var have []string
	scored := func(prefix, key string) {
		for _, z := range rdb.ZRangeWithScores(ctx, key, 0, -1).Val() {
			said := strconv.FormatInt(int64(z.Score)-span.to/1000, 10)
			if z.Score < 0 {
				said = "handed"
			}
			have = append(have, fmt.Sprintf("%s%s=%s", prefix, z.Member, said))
		}
	}
	scored("", scriptPermits)
	for _, owner := range rdb.ZRange(ctx, scriptSemQueue, 0, -1).Val() {
		have = append(have, "line:"+owner)
	}
	scored("place:", scriptPlaces)
	for owner, n := range rdb.HGetAll(ctx, scriptWants).Val() {
		have = append(have, "wants:"+owner+"="+n)
	}
	want := strings.Fields(p.permits)
	same := len(want) == len(have)
	for i := 0; same && i < len(want); i++ {
		who, ms, timed := strings.Cut(want[i], "=")
		is, left, _ := strings.Cut(have[i], "=")
		wanted, err := strconv.ParseInt(ms, 10, 64)
		got, _ := strconv.ParseInt(left, 10, 64)
		same = who == is && (left == ms || timed && err == nil && !strings.HasPrefix(who, "wants:") && near(wanted, got))
	}
	if !same {
		return fmt.Errorf("the semaphore has %q, want %q", have, want)
	}
	return nil
}

const stays = 2592000000 // ms for which the number of permits is remembered

// What stands there before a script runs. There are three permits: all are free, or h9 of another client has one
// or two of them, or three.
const (
	threeFree = "SET LOCK 3 PX 60000; SET TOKEN 5000 PX 20000"
	oneBy9    = "SET LOCK 2 PX 60000; ZADD PERMITS @60000 v:h9; PEXPIRE PERMITS 60000; SET TOKEN 5000 PX 20000"
	twoBy9    = "SET LOCK 1 PX 60000; ZADD PERMITS @60000 v:h9 @60000 v:h9/2; PEXPIRE PERMITS 60000; SET TOKEN 5000 PX 20000"
	threeBy9  = "SET LOCK 0 PX 60000; ZADD PERMITS @60000 v:h9 @60000 v:h9/2 @60000 v:h9/3; PEXPIRE PERMITS 60000; SET TOKEN 5000 PX 20000"
	twoBy7    = "SET LOCK 1 PX 60000; ZADD PERMITS @40000 u:h7 @40000 u:h7/2; PEXPIRE PERMITS 60000; SET TOKEN 5000 PX 20000"
	endedBy9  = "SET LOCK 1 PX 60000; ZADD PERMITS @-1 v:h9 @-1 v:h9/2; PEXPIRE PERMITS 60000; SET TOKEN 5000 PX 20000"
	line8     = "; ZADD LINE 8 u:h8; ZADD PLACES @15000 u:h8; PEXPIRE LINE 60000; PEXPIRE PLACES 60000"
	line8wide = line8 + "; HSET WANTS u:h8 2; PEXPIRE WANTS 60000"
	line86    = line8 + "; ZADD LINE 9 u:h6; ZADD PLACES @15000 u:h6"
	lapsed7   = "SET LOCK 1 PX 60000; ZADD PERMITS @-1 u:h7 @60000 v:h9; PEXPIRE PERMITS 60000; SET TOKEN 5000 PX 20000" +
		line8wide + "; ZADD PLACES @14000 u:h8 LAPSED u:h7"
	line8dead = "; ZADD LINE 8 u:h8; ZADD PLACES @-1 u:h8; PEXPIRE LINE 60000; PEXPIRE PLACES 60000"

	has9  = "v:h9=60000"
	has99 = "v:h9=60000 v:h9/2=60000"
	all9  = has99 + " v:h9/3=60000"
)

// ARGV: permits, owner, how many, lease, time to live of the token's key, whether it is a repeat, place, claim,
// command, until when.
var semAcquireRows = []row{
	{
		name: "nothing is known", script: lua.SemAcquire, args: "3 u:h7 1 30000 3600000 0 0 2000 PUBLISH 9000000000000000",
		reply: "1 clock clock clock", latched: latched{count: "2", stay: stays}, permitted: permitted{"u:h7=30000"},
		token: "clock", keep: 3600000, cut: "tonumber(ARGV[1]) - call('ZCARD', permits)", paste: "7",
	},
	{
		name: "several", script: lua.SemAcquire, args: "9 u:h7 2 30000 3600000 0 15000 2000 PUBLISH 9000000000000000", before: threeFree,
		reply: "1 clock clock clock", latched: latched{count: "1", stay: stays}, permitted: permitted{"u:h7=30000 u:h7/2=30000"},
		token: "clock", keep: 3600000, cut: "j == 1 and owner or owner .. '/' .. j", paste: "owner .. j",
	},
	{
		name: "too late", script: lua.SemAcquire, args: "3 u:h7 1 30000 3600000 0 0 2000 PUBLISH 1000000000000000",
		reply: "-2 clock", same: true, cut: "#limit == #clock and limit < clock", paste: "false",
	},
	{
		name: "more than there are", script: lua.SemAcquire, args: "9 u:h7 4 30000 3600000 0 15000 2000 PUBLISH 9000000000000000",
		before: threeFree, reply: "!HOLDFAST_PERMITS", same: true, cut: "if n > free and n > all() then", paste: "if false then",
	},
	{
		name: "no number", script: lua.SemAcquire, args: "9 u:h7 1 30000 3600000 0 15000 2000 PUBLISH 9000000000000000",
		before: "SET LOCK x PX 60000", reply: "!HOLDFAST", same: true, cut: "if known and not free then", paste: "if not free then free = 1 end if false then",
	},
	{
		name: "no token", script: lua.SemAcquire, args: "9 u:h7 1 30000 3600000 0 15000 2000 PUBLISH 9000000000000000",
		before: "SET LOCK 1 PX 60000; SET TOKEN x PX 60000", reply: "!HOLDFAST", same: true, cut: "not n or n >= 9007199254740991", paste: "false",
	},
	{
		name: "fewer are free, and it does not wait", script: lua.SemAcquire, args: "3 u:h7 2 30000 3600000 0 0 2000 PUBLISH 9000000000000000",
		before: twoBy9, reply: "0 ttl:60000 clock '' v:h9", same: true, cut: "if n <= free and (not first", paste: "if (not first",
	},
	{
		name: "fewer are free", script: lua.SemAcquire, args: "3 u:h7 2 30000 3600000 0 15000 2000 PUBLISH 9000000000000000",
		before: twoBy9, reply: "0 ttl:60000 clock '' v:h9", latched: latched{count: "1", stay: 60000},
		permitted: permitted{has99 + " line:u:h7 place:u:h7=15000 wants:u:h7=2"}, token: "5000", keep: 20000,
		cut: "if n > 1 then call('HSET', wants, owner, n) end", paste: "",
	},
	{
		name: "another waits", script: lua.SemAcquire, args: "3 u:h7 1 30000 3600000 0 0 2000 PUBLISH 9000000000000000",
		before: twoBy9 + line8wide, reply: "0 ttl:60000 clock '' v:h9", same: true, fair: fair{listen: "permits:u"},
		cut: "(not first or first == owner)", paste: "true",
	},
	{
		name: "another waits, whom nobody can reach", script: lua.SemAcquire,
		args: "3 u:h7 1 30000 3600000 0 0 2000 PUBLISH 9000000000000000", before: twoBy9 + line8wide, reply: "1 clock clock clock",
		latched: latched{count: "0", stay: stays}, permitted: permitted{"u:h7=30000 " + has99 + " line:u:h8 place:u:h8=15000 wants:u:h8=2"},
		token: "clock", keep: 3600000, cut: "if deaf[id] then return false end", paste: "",
	},
	{
		name: "another has waited", script: lua.SemAcquire, args: "3 u:h7 1 30000 3600000 0 0 2000 PUBLISH 9000000000000000",
		before: oneBy9 + line8dead, reply: "1 clock clock clock", latched: latched{count: "1", stay: stays},
		permitted: permitted{"u:h7=30000 " + has9}, token: "clock", keep: 3600000, fair: fair{listen: "permits:u"},
		cut: "if n > 0 then\n      call('ZREM', queue, unpack", paste: "if false then\n      call('ZREM', queue, unpack",
	},
	{
		name: "it stood first", script: lua.SemAcquire, args: "3 u:h8 2 30000 3600000 0 15000 2000 PUBLISH 9000000000000000",
		before: oneBy9 + line8wide, reply: "1 clock clock clock", latched: latched{count: "0", stay: stays},
		permitted: permitted{"u:h8=30000 u:h8/2=30000 " + has9}, token: "clock", keep: 3600000,
		cut: "if first then drop(owner) end", paste: "",
	},
	{
		name: "it was granted them before", script: lua.SemAcquire, args: "3 u:h7 2 60000 3600000 1 0 2000 PUBLISH 9000000000000000",
		before: twoBy7, reply: "1 clock clock clock", latched: latched{count: "1", stay: 60000},
		permitted: permitted{"u:h7=60000 u:h7/2=60000"}, token: "clock", keep: 3600000,
		cut: "math.max(now + lease, tonumber(call('ZSCORE', permits, owner)))", paste: "now",
	},
	{
		name: "a first attempt that comes late", script: lua.SemAcquire, args: "3 u:h7 2 3000 3600000 0 0 2000 PUBLISH 9000000000000000",
		before: twoBy7, reply: "1 clock clock clock", latched: latched{count: "1", stay: 60000},
		permitted: permitted{"u:h7=40000 u:h7/2=40000"}, token: "clock", keep: 3600000, cut: "if has(owner) and whole(owner, n) then", paste: "if false then",
	},
	{
		name: "it was handed them, and too late", script: lua.SemAcquire,
		args: "3 v:h9 2 30000 3600000 0 15000 2000 PUBLISH 9000000000000000", before: endedBy9, reply: "1 clock clock clock",
		latched: latched{count: "1", stay: stays}, permitted: permitted{"v:h9=30000 v:h9/2=30000"}, token: "clock", keep: 3600000,
		cut: "if ended > 0 then change(ended) end", paste: "",
	},
	{
		name: "it was handed fewer than it wants", script: lua.SemAcquire,
		args:   "3 u:h7 3 30000 3600000 0 15000 2000 PUBLISH 9000000000000000",
		before: "SET LOCK 2 PX 60000; ZADD PERMITS @2000 u:h7; PEXPIRE PERMITS 60000; SET TOKEN 5000 PX 20000", reply: "1 clock clock clock",
		latched: latched{count: "0", stay: stays}, permitted: permitted{"u:h7=30000 u:h7/2=30000 u:h7/3=30000"}, token: "clock", keep: 3600000,
		cut: " and whole(owner, n) then", paste: " then",
	},
	{
		name: "what it wants was lost", script: lua.SemAcquire, args: "3 u:h8 2 30000 3600000 0 15000 2000 PUBLISH 9000000000000000",
		before: twoBy9 + line8, reply: "0 ttl:60000 clock '' v:h9", latched: latched{count: "1", stay: 60000},
		permitted: permitted{has99 + " line:u:h8 place:u:h8=15000 wants:u:h8=2"}, token: "5000", keep: 20000,
		cut: "if n > 1 then call('HSET', wants", paste: "if fresh and n > 1 then call('HSET', wants",
	},
	{
		name: "more are free than the first wants", script: lua.SemAcquire,
		args: "3 u:h8 1 30000 3600000 0 15000 2000 PUBLISH 9000000000000000", before: threeFree + line86, reply: "1 clock clock clock",
		latched: latched{count: "1", stay: stays}, permitted: permitted{"u:h6=2000 u:h8=30000 place:u:h6=handed"}, token: "run",
		keep: 3600000, fair: fair{listen: "permits:u", told: "permits:u:h6/2000"}, cut: "if first and free > 0 then", paste: "if false then",
	},
	{
		name: "Redisson has taken back one of two that have ended", script: lua.SemAcquire,
		args:   "4 u:h7 2 30000 3600000 0 0 2000 PUBLISH 9000000000000000",
		before: "SET LOCK 3 PX 60000; ZADD PERMITS @-1 u:h7/2; PEXPIRE PERMITS 60000; SET TOKEN 5000 PX 20000", reply: "1 clock clock clock",
		latched: latched{count: "2", stay: stays}, permitted: permitted{"u:h7=30000 u:h7/2=30000"}, token: "clock", keep: 3600000,
		cut: "name, 0 - added)", paste: "name, 0 - n)",
	},
	{
		name: "another waits, whose client let a claim end", script: lua.SemAcquire,
		args: "3 w:h5 1 30000 3600000 0 0 2000 PUBLISH 9000000000000000", before: lapsed7, reply: "1 clock clock clock",
		latched:   latched{count: "1", stay: stays},
		permitted: permitted{"w:h5=30000 " + has9 + " line:u:h8 place:u=handed place:u:h8=14000 wants:u:h8=2"}, token: "clock", keep: 3600000,
		fair: fair{listen: "permits:u"}, cut: "or first and first ~= owner", paste: "",
	},
	{
		name: "the queue was lost", script: lua.SemAcquire, args: "3 u:h8 1 30000 3600000 0 15000 2000 PUBLISH 9000000000000000",
		before: threeBy9 + "; ZADD PLACES @15000 u:h8; PEXPIRE PLACES 60000", reply: "0 ttl:60000 clock '' v:h9",
		latched: latched{count: "0", stay: 60000}, permitted: permitted{all9 + " line:u:h8 place:u:h8=15000"}, token: "5000", keep: 20000,
		cut: " or not call('ZSCORE', queue, owner)", paste: "",
	},
	{
		name: "leases have ended", script: lua.SemAcquire, args: "3 u:h7 3 30000 3600000 0 0 2000 PUBLISH 9000000000000000", before: endedBy9,
		reply: "1 clock clock clock", latched: latched{count: "0", stay: stays},
		permitted: permitted{"u:h7=30000 u:h7/2=30000 u:h7/3=30000"}, token: "clock", keep: 3600000,
		cut: "if n > free or first and", paste: "if first and",
	},
	{
		name: "Redisson's number stays for ever", script: lua.SemAcquire, args: "3 u:h7 1 30000 3600000 0 0 2000 PUBLISH 9000000000000000",
		before: "SET LOCK 3", reply: "1 clock clock clock", latched: latched{count: "2", stay: forever}, permitted: permitted{"u:h7=30000"},
		token: "clock", keep: 3600000, endless: []string{scriptLock, scriptPermits}, cut: "if left < 0 then", paste: "if false then",
	},
}

// ARGV: permits, place, until when, claim, command, time to live of the token's key, owners.
var semJoinRows = []row{
	{
		name: "places", script: lua.SemJoin, args: "3 15000 9000000000000000 2000 PUBLISH 3600000 u:h8 u:h7", before: threeBy9,
		reply: "0 ttl:60000 clock '' v:h9", latched: latched{count: "0", stay: 60000},
		permitted: permitted{all9 + " line:u:h8 line:u:h7 place:u:h7=15000 place:u:h8=15000"}, token: "5000", keep: 20000,
		cut: "(tonumber(last[2]) or 0) + 1", paste: "0",
	},
	{
		name: "one is free", script: lua.SemJoin, args: "3 15000 9000000000000000 2000 PUBLISH 3600000 u:h7 u:h8", before: twoBy9,
		reply: "0 ttl:2000 before '' u:h7", latched: latched{count: "0", stay: stays},
		permitted: permitted{"u:h7=2000 " + has99 + " line:u:h8 place:u:h7=handed place:u:h8=15000"}, token: "clock", keep: 3600000,
		fair: fair{listen: "permits:u", told: "permits:u:h7/2000"}, cut: "tonumber(clock) - 1", paste: "tonumber(clock) + 9e6",
	},
	{
		name: "another waits, whose client let a claim end", script: lua.SemJoin,
		args: "3 15000 9000000000000000 2000 PUBLISH 3600000 w:h5 w:h6", before: lapsed7, reply: "0 ttl:2000 before '' w:h5",
		latched: latched{count: "0", stay: stays},
		permitted: permitted{"w:h5=2000 w:h6=2000 " + has9 +
			" line:u:h8 place:u=handed place:w:h5=handed place:w:h6=handed place:u:h8=14000 wants:u:h8=2"},
		token: "run", keep: 3600000, fair: fair{listen: "permits:u"}, cut: "sweep(0) -- who let", paste: "-- who let",
	},
	{
		name: "one has a permit", script: lua.SemJoin, args: "3 15000 9000000000000000 2000 PUBLISH 3600000 u:h8 u:h7", before: twoBy7,
		reply: "1", same: true, cut: "if call('ZSCORE', permits, ARGV[i]) then return {1} end", paste: "",
	},
	{
		name: "there are none", script: lua.SemJoin, args: "3 15000 9000000000000000 2000 PUBLISH 3600000 u:h8 u:h7", before: "SET LOCK 0 PX 60000",
		reply: "1", same: true, cut: "if all() < 1 then return {1} end", paste: "",
	},
	{
		name: "too late", script: lua.SemJoin, args: "3 15000 1000000000000000 2000 PUBLISH 3600000 u:h8 u:h7", before: oneBy9,
		reply: "-2 clock", same: true, cut: "#limit == #clock and limit < clock", paste: "false",
	},
}

// ARGV: permits, owner, command, claim, time to live of the token's key.
var semReleaseRows = []row{
	{
		name: "nobody waits", script: lua.SemRelease, args: "3 u:h7 PUBLISH 2000 3600000", before: twoBy7, reply: "1",
		latched: latched{count: "3", stay: 60000}, token: "5000", keep: 20000,
		fair: fair{listen: "permits", told: "permits:3"}, cut: "if n == 0 or call('ZREM', permits, owner .. '/2') == 0 then return n end", paste: "if true then return n end",
	},
	{
		name: "nobody is told", script: lua.SemRelease, args: "3 u:h7 '' 2000 3600000", before: twoBy7, reply: "1",
		latched: latched{count: "3", stay: 60000}, token: "5000", keep: 20000,
		fair: fair{listen: "permits"}, cut: "ARGV[3] ~= '' and tellOthers", paste: "tellOthers",
	},
	{
		name: "it has none", script: lua.SemRelease, args: "3 u:h7 PUBLISH 2000 3600000", before: threeBy9, reply: "-1", same: true,
		cut: "if not held then return {-1} end", paste: "",
	},
	{
		name: "its lease has ended", script: lua.SemRelease, args: "3 v:h9 PUBLISH 2000 3600000", before: endedBy9, reply: "-1",
		latched: latched{count: "3", stay: 60000}, token: "5000", keep: 20000, cut: "if n > 0 and tonumber(known or nil) then", paste: "if false then",
	},
	{
		name: "the place", script: lua.SemRelease, args: "3 u:h8 PUBLISH 2000 3600000", before: threeBy9 + line8wide, reply: "-1",
		latched: latched{count: "0", stay: 60000}, permitted: permitted{all9}, token: "5000", keep: 20000,
		cut: "  drop(owner)\n  local wrong", paste: "  local wrong",
	},
	{
		name: "who waits is handed them", script: lua.SemRelease, args: "3 v:h9 PUBLISH 2000 3600000", before: twoBy9 + line8wide, reply: "1",
		latched: latched{count: "1", stay: stays}, permitted: permitted{"u:h8=2000 u:h8/2=2000 place:u:h8=handed"}, token: "clock", keep: 3600000,
		fair: fair{listen: "permits:u permits", told: "permits:u:h8/2000/2 permits:1"},
		cut:  "local wanted = tonumber(call('HGET', wants, owner) or nil) or 1", paste: "local wanted = 1",
	},
	{
		name: "both who wait are handed one", script: lua.SemRelease, args: "3 v:h9 PUBLISH 2000 3600000", before: threeBy9 + line86, reply: "1",
		latched: latched{count: "1", stay: stays}, permitted: permitted{"u:h6=2000 u:h8=2000 place:u:h6=handed place:u:h8=handed"},
		token: "run", keep: 3600000, fair: fair{listen: "permits:u permits", told: "permits:u:h8/2000 permits:u:h6/2000 permits:1"},
		cut: "n >= most", paste: "n >= 1",
	},
	{
		name: "the first wants more than came back", script: lua.SemRelease, args: "3 u:h7 PUBLISH 2000 3600000",
		before: "SET LOCK 0 PX 60000; ZADD PERMITS @40000 u:h7 @60000 v:h9 @60000 v:h9/2; PEXPIRE PERMITS 60000; SET TOKEN 5000 PX 20000" +
			line86 + "; HSET WANTS u:h8 2; PEXPIRE WANTS 60000",
		reply: "1", latched: latched{count: "1", stay: 60000},
		permitted: permitted{has99 + " line:u:h8 line:u:h6 place:u:h6=15000 place:u:h8=15000 wants:u:h8=2"}, token: "5000", keep: 20000,
		fair: fair{listen: "permits:u"}, cut: "elseif wanted > free then\n          return nil, unheard, true",
		paste: "elseif wanted > free then\n          passed = passed + 1",
	},
	{
		name: "who waits cannot be reached", script: lua.SemRelease, args: "3 v:h9 PUBLISH 2000 3600000", before: twoBy9 + line8, reply: "1",
		latched: latched{count: "3", stay: 60000}, permitted: permitted{"line:u:h8 place:u:h8=15000"}, token: "5000", keep: 20000,
		cut: "listeners(command, channel .. ':' .. id) == 0", paste: "false",
	},
	{
		name: "who waits let a claim end", script: lua.SemRelease, args: "3 v:h9 PUBLISH 2000 3600000",
		before: twoBy9 + line8 + "; ZADD PLACES @14000 u:h8 LAPSED u", reply: "1", latched: latched{count: "3", stay: 60000},
		permitted: permitted{"line:u:h8 place:u=handed place:u:h8=14000"}, token: "5000", keep: 20000, fair: fair{listen: "permits:u"},
		cut: "return not lapsed or deadline - silence >= -tonumber(lapsed)", paste: "return true",
	},
	{
		name: "a claim has ended", script: lua.SemRelease, args: "3 v:h9 PUBLISH 2000 3600000",
		before: "SET LOCK 1 PX 60000; ZADD PERMITS @-1 u:h7 @60000 v:h9; PEXPIRE PERMITS 60000; SET TOKEN 5000 PX 20000" +
			"; ZADD PLACES LAPSED u:h7; PEXPIRE PLACES 60000",
		reply: "1", latched: latched{count: "3", stay: 60000}, permitted: permitted{"place:u=handed"}, token: "5000", keep: 20000,
		cut: "call('ZADD', places, -now, id)", paste: "call('ZREM', places, id)",
	},
	{
		name: "the number is gone", script: lua.SemRelease, args: "3 u:h7 PUBLISH 2000 3600000",
		before: "ZADD PERMITS @40000 u:h7 @60000 v:h9; PEXPIRE PERMITS 60000", reply: "1", latched: latched{count: "2", stay: stays},
		permitted: permitted{has9}, cut: "if n > 0 and tonumber(known or nil) then", paste: "if n > 0 then",
	},
}

// ARGV: permits, owner, lease, time to live of the token's key, how many.
var semRenewRows = []row{
	{
		name: "renewed", script: lua.SemRenew, args: "3 u:h7 90000 3600000 2", before: twoBy7, reply: "1", latched: latched{count: "1", stay: stays},
		permitted: permitted{"u:h7=90000 u:h7/2=90000"}, token: "5000", keep: 3600000,
		cut: "tonumber(ARGV[5])", paste: "1",
	},
	{
		name: "it has fewer", script: lua.SemRenew, args: "3 u:h7 90000 3600000 3", before: twoBy7, reply: "-1", same: true,
		cut: " or not whole(owner, n)", paste: "",
	},
	{
		name: "not shortened", script: lua.SemRenew, args: "3 u:h7 3000 3000 2", before: twoBy7, reply: "1", latched: latched{count: "1", stay: stays},
		permitted: permitted{"u:h7=40000 u:h7/2=40000"}, token: "5000", keep: 20000, cut: "if ends < now + lease then", paste: "if true then",
	},
	{
		name: "it has none", script: lua.SemRenew, args: "3 u:h7 90000 3600000 1", before: twoBy9, reply: "-1", same: true,
		cut: "if not ends or ends <= now or not whole(owner, n) then return {-1} end", paste: "ends = ends or 0",
	},
	{
		name: "its lease has ended", script: lua.SemRenew, args: "3 v:h9 90000 3600000 2", before: endedBy9, reply: "-1", same: true,
		cut: "or ends <= now", paste: "",
	},
}

// ARGV: permits, client, command, claim, time to live of the token's key, place, owners.
var semPollRows = []row{
	{
		name: "places are kept", script: lua.SemPoll, args: "3 u PUBLISH 2000 3600000 40000 u:h8 u:h6", before: threeBy9 + line8,
		reply: "1 ttl:60000 clock v:h9 '' 1 '' u:h6", latched: latched{count: "0", stay: 60000},
		permitted: permitted{all9 + " line:u:h8 place:u:h8=40000"}, token: "5000", keep: 20000, fair: fair{listen: "permits:u"},
		cut: "missing[#missing + 1] = ARGV[i]", paste: "",
	},
	{
		name: "what is free is handed out", script: lua.SemPoll, args: "3 u PUBLISH 2000 3600000 15000", before: oneBy9 + line8wide,
		reply: "1 ttl:2000 clock u:h8 '' '' '' u:h8", latched: latched{count: "0", stay: stays},
		permitted: permitted{"u:h8=2000 u:h8/2=2000 " + has9 + " place:u:h8=handed"}, token: "clock", keep: 3600000,
		cut: "if id == present then return true end", paste: "",
	},
	{
		name: "it was handed one, and was not told", script: lua.SemPoll, args: "3 u PUBLISH 2000 3600000 15000",
		before: "SET LOCK 0 PX 60000; ZADD PERMITS @1 v:h1 @60000 u:h7; PERSIST LOCK; PEXPIRE LOCK 60000; PEXPIRE PERMITS 60000" +
			"; ZADD PERMITS @40000 v:h1; ZADD PLACES LAPSED u:h7; PEXPIRE PLACES 60000",
		reply: "1 ttl:40000 clock u:h7 '' '' '' u:h7", same: true, cut: "who = tell[1] or who", paste: "",
	},
	{
		name: "it is heard of again", script: lua.SemPoll, args: "3 u PUBLISH 2000 3600000 15000",
		before: threeBy9 + line8 + "; ZADD PLACES LAPSED u", reply: "1 ttl:60000 clock v:h9 '' '' ''",
		latched: latched{count: "0", stay: 60000}, permitted: permitted{all9 + " line:u:h8 place:u:h8=15000"}, token: "5000", keep: 20000,
		cut: "call('ZREM', places, id)", paste: "",
	},
	{
		name: "Redisson's have permits", script: lua.SemPoll, args: "3 u PUBLISH 2000 3600000 15000",
		before: "SET LOCK 2 PX 60000; ZADD PERMITS @60000 abcd; PEXPIRE PERMITS 60000", reply: "1 ttl:60000 clock '' redisson '' ''", same: true,
		cut: "called = 'redisson'", paste: "called = ''",
	},
}

// ARGV: permits, command, claim, time to live of the token's key, until when, call, for how long it is repeated.
var semSetRows = []row{
	{
		name: "more", script: lua.SemSet, args: "5 PUBLISH 2000 3600000 9000000000000000 call 0", before: threeBy9 + line8, reply: "1",
		latched: latched{count: "1", stay: stays}, permitted: permitted{"u:h8=2000 " + all9 + " place:call=handed place:u:h8=handed"}, token: "clock", keep: 3600000,
		fair: fair{listen: "permits:u permits", told: "permits:u:h8/2000 permits:1"}, cut: "change(tonumber(ARGV[1]) - all())", paste: "change(1)",
	},
	{
		name: "fewer than are out", script: lua.SemSet, args: "1 PUBLISH 2000 3600000 9000000000000000 call 0", before: threeBy9 + line8wide, reply: "1",
		latched: latched{count: "-2", stay: stays}, permitted: permitted{all9 + " place:call=handed"}, token: "5000", keep: 20000,
		fair: fair{listen: "permits:u", told: "permits:u:h8/-"}, cut: "if wanted > free and wanted > all() then", paste: "if false then",
	},
	{
		name: "nothing is known", script: lua.SemSet, args: "5 PUBLISH 2000 3600000 9000000000000000 call 0", reply: "1",
		latched: latched{count: "5", stay: stays}, permitted: permitted{"place:call=handed"},
		cut: "call('SET', name, free, 'PX', remembered)", paste: "call('SET', name, free)",
	},
	{
		name: "another has set another number since", script: lua.SemSet, args: "5 PUBLISH 2000 3600000 9000000000000000 call 0",
		before: threeBy9 + "; ZADD PLACES LAPSED call; PEXPIRE PLACES 60000", reply: "1", latched: latched{count: "0", stay: stays},
		permitted: permitted{all9 + " place:call=handed"}, token: "5000", keep: 20000,
		cut: "if not call('ZSCORE', places, this) then", paste: "if true then",
	},
	{
		name: "too late", script: lua.SemSet, args: "5 PUBLISH 2000 3600000 1000000000000000 call 0", before: threeBy9, reply: "-2 clock",
		same: true, cut: "#limit == #clock and limit < clock", paste: "false",
	},
	{
		name: "free", script: lua.SemState, args: "3", reply: "1 3 3 ''", same: true, cut: "known or ARGV[1] - out", paste: "known or 1",
	},
	{
		name: "out, and one waits", script: lua.SemState, args: "7", before: twoBy9 + line8, reply: "1 3 1 1 v:h9 ttl:60000 v:h9/2 ttl:60000", same: true,
		cut: "call('ZCOUNT', places, '(' .. now, '+inf')", paste: "0",
	},
	{
		name: "leases have ended", script: lua.SemState, args: "7", before: endedBy9 + line8dead, reply: "1 3 3 ''", same: true,
		cut: "'(' .. now, '+inf', 'WITHSCORES'", paste: "'-inf', '+inf', 'WITHSCORES'",
	},
}
