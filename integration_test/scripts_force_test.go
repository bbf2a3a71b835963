package integration_test

import "github.com/holdfast-go/holdfast/lua"

// ARGV: owner, command to announce, time to live of the token's key, greatest token that was seen.
var forceRows = []row{
	{
		name: "held", script: lua.Force, args: "a PUBLISH 3600000 6000", before: heldByA, reply: "1", token: "clock",
		keep: 3600000,
		cut:  "call('DEL', name)\n", paste: "",
	},
	{
		name: "held, and the holder would take it back", script: lua.Force, args: "a SPUBLISH 3600000 6000", before: heldByA,
		reply: "1", token: "clock", keep: 3600000,
		cut: "call('SET', tokens, token,", paste: "call('SET', tokens, last,",
	},
	{
		name: "held, the last token is ahead of the clock", script: lua.Force, args: "a PUBLISH 3600000 6000",
		before: "HSET LOCK a 1; PEXPIRE LOCK 10000; SET TOKEN 8999999999999999 PX 20000", reply: "1",
		token: "9000000000000000", keep: 3600000,
		cut: "n + 1", paste: "n",
	},
	{
		name: "free, another master's token is ahead of the clock", script: lua.Force,
		args: "a PUBLISH 3600000 8999999999999999", reply: "-1", token: "9000000000000000", keep: 3600000,
		cut: "token = string.format('%.0f', tonumber(most) + 1)", paste: "",
	},
	{
		name: "held, the token is kept for longer", script: lua.Force, args: "a PUBLISH 3600000 6000",
		before: "HSET LOCK a 1; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 7200000", reply: "1", token: "clock", keep: 7200000,
		cut: "math.max(tonumber(ARGV[3]), call('PTTL', tokens))", paste: "ARGV[3]",
	},
	{
		name: "free, and the holder might ask here too", script: lua.Force, args: "a PUBLISH 3600000 6000", reply: "-1",
		token: "clock", keep: 3600000,
		cut: "if not held and call('HLEN', name) > 0 then", paste: "if not held then",
	},
	{
		name: "another's", script: lua.Force, args: "a PUBLISH 3600000 6000", before: heldByB, reply: "-1", same: true,
		cut: "if not held and call('HLEN', name) > 0 then return {-1} end", paste: "",
	},
	{
		name: "another's, and not the owner's", script: lua.Force, args: "a PUBLISH 3600000 6000", before: heldByB,
		reply: "-1", same: true,
		cut: "call('HEXISTS', name, ARGV[1])", paste: "call('EXISTS', name)",
	},
	{
		name: "the token's key holds something else", script: lua.Force, args: "a PUBLISH 3600000 6000",
		before: "HSET LOCK a 1; PEXPIRE LOCK 10000; SET TOKEN ten", reply: "!HOLDFAST", same: true,
		cut: "if not n or n >= 9007199254740991 then", paste: "if false then",
	},
	{
		name: "key of another type", script: lua.Force, args: "a PUBLISH 3600000 6000", before: notALock, reply: "!WRONGTYPE",
		same: true,
		cut:  "local held = call", paste: "call('DEL', name)\nlocal held = call",
	},
}
