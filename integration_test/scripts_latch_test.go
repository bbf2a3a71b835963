package integration_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lua"
)

// The keys of a latch, spelled out because the spelling is a promise to Redisson, and to other
// versions. The count stands under the name.
const (
	scriptLatchChannel = "redisson_countdownlatch__channel__{orders:42}"
	scriptCall         = "holdfast_latch:{orders:42}:a:h1"
)

// latched is what a row expects of a latch.
type latched struct {
	count string // what is left; empty: it is not set
	stay  int64  // its time to live as in "ttl:"; forever: none
	calls bool   // the call is remembered
}

// checkLatched compares them. Rows of other scripts have no string under the name.
func (l latched) checkLatched(ctx context.Context, rdb *redis.Client, after dataset) error {
	if got := rdb.Get(ctx, scriptLock).Val(); got != l.count {
		return fmt.Errorf("count %q, want %q", got, l.count)
	}
	if ttl := after[scriptLock].ttl; l.count != "" && l.stay != forever && !near(l.stay, ttl.Milliseconds()) {
		return fmt.Errorf("the latch has %v to live, want %d ms", ttl, l.stay)
	}
	if _, there := after[scriptCall]; there != l.calls {
		return fmt.Errorf("the call is remembered: %t", there)
	}
	return nil
}

// ARGV: count, how long it stays, until when, how much longer repeats may come, command, channel.
const latchArgs = " 60000 9000000000000000 60000 PUBLISH " + scriptLatchChannel

var (
	latchLate = strings.Replace(latchArgs, "9000000000000000", "1000000000000000", 1)
	three     = "SET LOCK 3 PX 30000"
	last      = "SET LOCK 1 PX 30000"
	called    = "; SET CALL 1 PX 30000"
	inVain    = "SET CALL 0 PX 30000" // the call found nothing to do
)

var latchRows = []row{
	{
		name: "not set", script: lua.LatchSet, args: "3" + latchArgs, reply: "1 1 clock",
		latched: latched{count: "3", stay: 60000, calls: true}, fair: fair{listen: "latch", told: "latch:1"},
		cut: "call('SET', name, ARGV[1], 'PX', ARGV[2])", paste: "call('SET', name, ARGV[1], 'PX', 1000)",
	},
	{
		name: "set already", script: lua.LatchSet, args: "5" + latchArgs, before: three, reply: "1 '' clock",
		latched: latched{count: "3", stay: 30000, calls: true}, fair: fair{listen: "latch"},
		cut: "call('GET', name) and '0'", paste: "false and '0'",
	},
	{
		name: "set already, and the call is remembered", script: lua.LatchSet, args: "5" + latchArgs, before: three, reply: "1 '' clock",
		latched: latched{count: "3", stay: 30000, calls: true},
		cut:     "call('SET', this, outcome, 'PX', kept)", paste: "if outcome == '1' then call('SET', this, outcome, 'PX', kept) end",
	},
	{
		name: "a repeat, and it was opened", script: lua.LatchSet, args: "3" + latchArgs, before: inVain, reply: "1 '' clock",
		same: true,
		cut:  "if outcome then return {1, tonumber(outcome), clock} end", paste: "",
	},
	{
		name: "a repeat", script: lua.LatchSet, args: "3" + latchArgs, before: "SET LOCK 2 PX 30000" + called, reply: "1 1 clock",
		same: true,
		cut:  "if outcome then return {1, tonumber(outcome), clock} end", paste: "",
	},
	{
		name: "too late", script: lua.LatchSet, args: "3" + latchLate, reply: "-2 clock", same: true,
		cut: "then return {-2, clock} end", paste: "then end",
	},
	{
		name: "no latch", script: lua.LatchSet, args: "3" + latchArgs, before: heldByB, reply: "!WRONGTYPE", same: true,
		cut: "call('GET', name) and", paste: "call('EXISTS', name) == 1 and",
	},
	{
		name: "one of three", script: lua.LatchCount, args: "-" + latchArgs, before: three, reply: "1 2 clock",
		latched: latched{count: "2", stay: 60000, calls: true}, fair: fair{listen: "latch"},
		cut: "call('SET', this, outcome, 'PX', kept)", paste: "",
	},
	{
		name: "it stays for longer", script: lua.LatchCount, args: "-" + latchArgs, before: three, reply: "1 2 clock",
		latched: latched{count: "2", stay: 60000, calls: true},
		cut:     "call('PEXPIRE', name, ARGV[2])", paste: "call('PTTL', name)",
	},
	{
		name: "it is not shortened", script: lua.LatchCount, args: "-" + latchArgs, before: "SET LOCK 3 PX 90000",
		reply: "1 2 clock", latched: latched{count: "2", stay: 90000, calls: true},
		cut: "ttl < tonumber(ARGV[2])", paste: "true",
	},
	{
		name: "the last one", script: lua.LatchCount, args: "-" + latchArgs, before: last, reply: "1 '' clock",
		latched: latched{calls: true}, fair: fair{listen: "latch", told: "latch:0"},
		cut: "call('DEL', name)", paste: "",
	},
	{
		name: "a repeat", script: lua.LatchCount, args: "-" + latchArgs, before: three + called, reply: "1 3 clock", same: true,
		cut: "if call('EXISTS', this) == 1 then", paste: "if false then",
	},
	{
		name: "not set", script: lua.LatchCount, args: "-" + latchArgs, reply: "1 '' clock",
		latched: latched{calls: true}, fair: fair{listen: "latch"},
		cut: "if not stands then return {1, 0, clock} end", paste: "",
	},
	{
		name: "not set, and the call is remembered", script: lua.LatchCount, args: "-" + latchArgs, reply: "1 '' clock",
		latched: latched{calls: true},
		cut:     "call('SET', this, outcome, 'PX', kept)", paste: "if stands then call('SET', this, outcome, 'PX', kept) end",
	},
	{
		name: "too late", script: lua.LatchCount, args: "-" + latchLate, before: three, reply: "-2 clock", same: true,
		cut: "then return {-2, clock} end", paste: "then end",
	},
	{
		name: "no count", script: lua.LatchCount, args: "-" + latchArgs, before: "SET LOCK red PX 30000", reply: "!HOLDFAST",
		same: true,
		cut:  "left = not string.find(left, '[^%d-]') and tonumber(left)", paste: "left = 5",
	},
	{
		name: "no latch", script: lua.LatchCount, args: "-" + latchArgs, before: heldByB, reply: "!WRONGTYPE", same: true,
		cut: "local stands = call('GET', name)", paste: "call('DEL', name)\nlocal stands = call('GET', name)",
	},
	{
		name: "set", script: lua.LatchDelete, args: "-" + latchArgs, before: three, reply: "1 1 clock",
		latched: latched{calls: true}, fair: fair{listen: "latch", told: "latch:0"},
		cut: "'0'\n", paste: "'1'\n",
	},
	{
		name: "not set", script: lua.LatchDelete, args: "-" + latchArgs, reply: "1 '' clock",
		latched: latched{calls: true}, fair: fair{listen: "latch"},
		cut: "if outcome == '0' then return {1, 0, clock} end", paste: "",
	},
	{
		name: "not set, and the call is remembered", script: lua.LatchDelete, args: "-" + latchArgs, reply: "1 '' clock",
		latched: latched{calls: true},
		cut:     "call('SET', this, outcome, 'PX', kept)", paste: "if outcome == '1' then call('SET', this, outcome, 'PX', kept) end",
	},
	{
		name: "a repeat that found nothing, and it was set", script: lua.LatchDelete, args: "-" + latchArgs,
		before: three + "; " + inVain, reply: "1 '' clock", same: true,
		cut: "if outcome then return {1, tonumber(outcome), clock} end", paste: "",
	},
	{
		name: "a repeat, and it was set anew", script: lua.LatchDelete, args: "-" + latchArgs, before: three + called,
		reply: "1 1 clock", same: true,
		cut: "if outcome then return {1, tonumber(outcome), clock} end", paste: "",
	},
	{
		name: "too late", script: lua.LatchDelete, args: "-" + latchLate, before: three, reply: "-2 clock", same: true,
		cut: "then return {-2, clock} end", paste: "then end",
	},
	{
		name: "no latch", script: lua.LatchDelete, args: "-" + latchArgs, before: heldByB, reply: "!WRONGTYPE", same: true,
		cut: "call('GET', name) and", paste: "call('EXISTS', name) == 1 and",
	},
	{
		name: "set", script: lua.LatchLook, before: three, reply: "1 3 ttl:30000", same: true,
		cut: "math.max(left, 0)", paste: "math.min(left, 1)",
	},
	{
		name: "not set", script: lua.LatchLook, reply: "1 '' -2", same: true,
		cut: "return {1, 0, -2}", paste: "return {1, 1, -2}",
	},
	{
		name: "no count", script: lua.LatchLook, before: "SET LOCK red PX 30000", reply: "!HOLDFAST", same: true,
		cut: "if not left then return redis.error_reply", paste: "if false then return redis.error_reply",
	},
}
