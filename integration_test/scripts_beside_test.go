package integration_test

import "github.com/holdfast-go/holdfast/lua"

// ARGV: those of acquireRows and startRows.
var besideRows = []row{
	{
		name: "a string", script: lua.AcquireBeside,
		args: "a 30000 3600000 0 1 9000000000000000", before: "SET LOCK other PX 10000; SET TOKEN 5000 PX 20000",
		reply: "0 ttl:10000 -1", same: true,
		cut: "type(stands) == 'string'", paste: "false",
	},
	{
		name: "a string without an end", script: lua.AcquireBeside,
		args: "a 30000 3600000 0 1 9000000000000000", before: "SET LOCK other",
		reply: "0 -1 -1", same: true,
		cut: "redis.call('PTTL', KEYS[1]), -1", paste: "0, -1",
	},
	{
		name: "a string, and a repeated attempt", script: lua.AcquireBeside,
		args: "a 30000 3600000 1 1 9000000000000000", before: "SET LOCK other PX 10000",
		reply: "0 ttl:10000 -1", same: true,
		cut: "redis.pcall('GET', KEYS[1])", paste: "redis.pcall('GET', KEYS[2])",
	},
	{
		name: "something else than a string", script: lua.AcquireBeside,
		args: "a 30000 3600000 0 1 9000000000000000", before: "RPUSH LOCK x; PEXPIRE LOCK 10000",
		reply: "!WRONGTYPE", same: true,
		cut: "type(stands) == 'string'", paste: "true",
	},
	{
		name: "another's", script: lua.AcquireBeside,
		args: "a 30000 3600000 0 1 9000000000000000", before: heldByB,
		reply: "0 ttl:10000 b", same: true,
		cut: "if type(stands) == 'table' then", paste: "if stands ~= 0 then return {0, redis.call('PTTL', KEYS[1]), -1} end\nif false then",
	},
	{
		name: "free", script: lua.AcquireBeside, args: "a 30000 3600000 0 1 9000000000000000",
		reply: "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "call('HSET', name, owner, '1')", paste: "call('HSET', name, owner, '2')",
	},
	{
		name: "a string: a head start is not needed", script: lua.HeadStartBeside,
		args: "a 30000 3600000 0 1 9000000000000000 60 60", before: "SET LOCK other PX 10000",
		reply: "0 ttl:10000 -1", same: true,
		cut: "type(stands) == 'string'", paste: "false",
	},
	{
		name: "free: a head start ends", script: lua.HeadStartBeside, args: "a 30000 3600000 0 1 9000000000000000 0 30",
		before: "SET CHANNEL 30 PX 5000",
		reply:  "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "redis.pcall('DEL', KEYS[3])", paste: "redis.pcall('GET', KEYS[3])",
	},
}
