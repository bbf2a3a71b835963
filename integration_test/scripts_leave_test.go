package integration_test

import "github.com/holdfast-go/holdfast/lua"

// ARGV: owner, how much longer the lock is to stay, command to announce.
var leaveRows = []row{
	{
		name: "free", script: lua.Leave, args: "a 5000 PUBLISH", reply: "-1", same: true,
		cut: "if not held then return {-1} end", paste: "",
	},
	{
		name: "another's", script: lua.Leave, args: "a 5000 PUBLISH", before: heldByB, reply: "-1", same: true,
		cut: "call('HEXISTS', name, ARGV[1]) == 1", paste: "call('EXISTS', name) == 1",
	},
	{
		name: "less than is left", script: lua.Leave, args: "a 5000 PUBLISH", before: heldByA,
		reply: "1", hash: "a=1", lease: 5000, token: "5000", keep: 20000,
		cut: "call('PEXPIRE', name, ARGV[2])", paste: "call('DEL', name)",
	},
	{
		name: "more than is left", script: lua.Leave, args: "a 60000 PUBLISH", before: heldByA,
		reply: "1", hash: "a=1", lease: 10000, token: "5000", keep: 20000,
		cut: "if left >= 0 and left <= rest then return {1} end", paste: "",
	},
	{
		name: "held more than once", script: lua.Leave, args: "a 5000 PUBLISH", before: heldThree,
		reply: "1", hash: "a=3", lease: 5000, token: "5000", keep: 20000,
		cut: "call('PEXPIRE', name, ARGV[2])", paste: "",
	},
	{
		name: "without a time to live", script: lua.Leave, args: "a 5000 PUBLISH", before: "HSET LOCK a 1",
		reply: "1", hash: "a=1", lease: 5000,
		cut: "left >= 0 and ", paste: "",
	},
	{
		name: "announced by a command that is refused", script: lua.Leave, args: "a 5000 GET", before: heldByA,
		reply: "1 error", hash: "a=1", lease: 5000, token: "5000", keep: 20000,
		cut: "redis.pcall(command", paste: "redis.call(command",
	},
	{
		name: "announced by a command that is not known", script: lua.Leave, args: "a 5000 NOSUCH", before: heldByA,
		reply: "1", hash: "a=1", lease: 5000, token: "5000", keep: 20000,
		cut: "sent = redis.pcall('PUBLISH', to, text)", paste: "",
	},
	{
		name: "key of another type", script: lua.Leave, args: "a 5000 PUBLISH", before: notALock, reply: "!WRONGTYPE", same: true,
		cut: "local held = call", paste: "call('PEXPIRE', name, 1000000)\nlocal held = call",
	},
}
