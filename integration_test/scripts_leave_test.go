package integration_test

import "github.com/holdfast-go/holdfast/lua"

// What stands at the name before the owner u:h7 leaves, and after it has.
const (
	heldBy7 = "HSET LOCK u:h7 1; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000"
	leftBy7 = "HSET LOCK u:h07 1; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000"
)

// ARGV: owner, how much longer the lock is to stay, command to announce.
var leaveRows = []row{
	{
		name: "free", script: lua.Leave, args: "u:h7 5000 PUBLISH", reply: "-1", same: true,
		cut: "if not held then return {-1} end", paste: "",
	},
	{
		name: "another's", script: lua.Leave, args: "u:h7 5000 PUBLISH", before: heldByB, reply: "-1", same: true,
		cut: "call('HEXISTS', name, ARGV[1]) == 1", paste: "call('EXISTS', name) == 1",
	},
	{
		name: "less than is left", script: lua.Leave, args: "u:h7 5000 PUBLISH", before: heldBy7,
		reply: "1", hash: "u:h07=1", lease: 5000, token: "5000", keep: 20000,
		cut: "':h0%1'", paste: "':h%1'",
	},
	{
		name: "more than is left", script: lua.Leave, args: "u:h7 60000 PUBLISH", before: heldBy7,
		reply: "1", hash: "u:h07=1", lease: 10000, token: "5000", keep: 20000,
		cut: "if ends then rest = math.max(ttl, 1) end", paste: "",
	},
	{
		name: "held more than once", script: lua.Leave, args: "u:h7 5000 PUBLISH",
		before: "HSET LOCK u:h7 3; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000",
		reply:  "1", hash: "u:h07=1", lease: 5000, token: "5000", keep: 20000,
		cut: "\n  if call('HDEL', name, ARGV[1]) == 0 then call('DEL', name) end", paste: "",
	},
	{
		name: "left before", script: lua.Leave, args: "u:h7 60000 PUBLISH", before: leftBy7,
		reply: "1", hash: "u:h07=1", lease: 10000, token: "5000", keep: 20000,
		cut: "local again = call('HEXISTS', name, left) == 1", paste: "local again = false",
	},
	{
		name: "left before, and not lengthened", script: lua.Leave, args: "u:h7 60000 PUBLISH", before: leftBy7,
		reply: "1", hash: "u:h07=1", lease: 10000, token: "5000", keep: 20000,
		cut: "ttl >= 0 and ttl <= rest", paste: "false",
	},
	{
		name: "left before, for longer", script: lua.Leave, args: "u:h7 1000 PUBLISH", before: leftBy7,
		reply: "1", hash: "u:h07=1", lease: 1000, token: "5000", keep: 20000,
		cut: "if not ends or not again", paste: "if not ends and not again",
	},
	{
		name: "without a time to live", script: lua.Leave, args: "u:h7 30000 PUBLISH", before: "HSET LOCK u:h7 1",
		reply: "1", hash: "u:h07=1", lease: 30000,
		cut: "ttl >= 0 and ", paste: "",
	},
	{
		name: "an owner without a number", script: lua.Leave, args: "a 5000 PUBLISH", before: heldByA,
		reply: "1", hash: "a=1", lease: 5000, token: "5000", keep: 20000,
		cut: "if not ends or not again then", paste: "if not again then",
	},
	{
		name: "announced by a command that is refused", script: lua.Leave, args: "u:h7 5000 GET", before: heldBy7,
		reply: "1 error", hash: "u:h07=1", lease: 5000, token: "5000", keep: 20000,
		cut: "redis.pcall(command", paste: "redis.call(command",
	},
	{
		name: "announced by a command that is not known", script: lua.Leave, args: "u:h7 5000 NOSUCH", before: heldBy7,
		reply: "1", hash: "u:h07=1", lease: 5000, token: "5000", keep: 20000,
		cut: "sent = redis.pcall('PUBLISH', to, text)", paste: "",
	},
	{
		name: "key of another type", script: lua.Leave, args: "u:h7 5000 PUBLISH", before: notALock,
		reply: "!WRONGTYPE", same: true,
		cut: "local again = call", paste: "call('PEXPIRE', name, 1000000)\nlocal again = call",
	},
}
