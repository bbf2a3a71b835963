package integration_test

import "github.com/holdfast-go/holdfast/lua"

// The rows of the scripts for whoever holds the lock.

// ARGV: owner, count, lease.
var recountRows = []row{
	{
		name: "free", script: lua.Recount, args: "a 2 30000", reply: "-1", same: true,
		cut: "if not held then return {-1} end", paste: "",
	},
	{
		name: "another's", script: lua.Recount, args: "a 2 30000", before: heldByB, reply: "-1", same: true,
		cut: "call('HEXISTS', name, ARGV[1])", paste: "call('EXISTS', name)",
	},
	{
		name: "one more", script: lua.Recount, args: "a 2 30000", before: heldByA,
		reply: "1", hash: "a=2", lease: 30000, token: "5000", keep: 20000,
		cut: "call('HSET', name, ARGV[1], ARGV[2])", paste: "",
	},
	{
		name: "counted already, by a call whose reply was lost", script: lua.Recount, args: "a 3 30000",
		before: heldThree,
		reply:  "1", hash: "a=3", lease: 30000, token: "5000", keep: 20000,
		cut: "call('HSET', name, ARGV[1], ARGV[2])", paste: "call('HINCRBY', name, ARGV[1], 1)",
	},
	{
		name: "one less", script: lua.Recount, args: "a 1 30000", before: heldThree,
		reply: "1", hash: "a=1", lease: 30000, token: "5000", keep: 20000,
		cut: "ARGV[1], ARGV[2])", paste: "ARGV[1], math.max(ARGV[2], call('HGET', name, ARGV[1])))",
	},
	{
		name: "a lease shorter than what is left", script: lua.Recount, args: "a 2 1000", before: heldByA,
		reply: "1", hash: "a=2", lease: 10000, token: "5000", keep: 20000,
		cut: "math.max(tonumber(ARGV[3]), call('PTTL', name))", paste: "ARGV[3]",
	},
	{
		name: "without a time to live", script: lua.Recount, args: "a 2 30000", before: "HSET LOCK a 1",
		reply: "1", hash: "a=2", lease: 30000,
		cut: "call('PEXPIRE', name, math.max(tonumber(ARGV[3]), call('PTTL', name)))", paste: "",
	},
	{
		name: "key of another type", script: lua.Recount, args: "a 2 30000", before: notALock, reply: "!WRONGTYPE",
		same: true,
		cut:  "local held = call", paste: "call('PEXPIRE', name, 1000000)\nlocal held = call",
	},
}

// ARGV: owner, command to announce.
var releaseRows = []row{
	{
		name: "free", script: lua.Release, args: "a PUBLISH", reply: "-1", same: true,
		cut: "if not held then return {-1} end", paste: "",
	},
	{
		name: "another's", script: lua.Release, args: "a PUBLISH", before: heldByB, reply: "-1", same: true,
		cut: "call('HEXISTS', name, ARGV[1])", paste: "call('EXISTS', name)",
	},
	{
		name: "held", script: lua.Release, args: "a PUBLISH", before: heldByA, reply: "1", token: "5000", keep: 20000,
		cut: "\ncall('DEL', name)", paste: "\n",
	},
	{
		name: "held, by SPUBLISH or what the server has instead", script: lua.Release, args: "a SPUBLISH",
		before: heldByA,
		reply:  "1", token: "5000", keep: 20000,
		cut: "\ncall('DEL', name)", paste: "\n",
	},
	{
		name: "held more than once", script: lua.Release, args: "a PUBLISH", before: heldThree, reply: "1",
		token: "5000", keep: 20000,
		cut: "\ncall('DEL', name)", paste: "\ncall('HINCRBY', name, ARGV[1], -1)",
	},
	{
		name: "without a time to live", script: lua.Release, args: "a PUBLISH", before: "HSET LOCK a 1", reply: "1",
		cut: "\ncall('DEL', name)", paste: "\ncall('PEXPIRE', name, 100000)",
	},
	{
		name: "key of another type", script: lua.Release, args: "a PUBLISH", before: notALock, reply: "!WRONGTYPE",
		same: true,
		cut:  "local held = call", paste: "call('DEL', name)\nlocal held = call",
	},
}

// ARGV: owner, lease, time to live of the token's key.
var renewRows = []row{
	{
		name: "free", script: lua.Renew, args: "a 30000 3600000", reply: "-1", same: true,
		cut: "if not held then return {-1} end", paste: "",
	},
	{
		name: "free, the token is not kept for nobody", script: lua.Renew, args: "a 30000 3600000",
		before: "SET TOKEN 5000 PX 20000",
		reply:  "-1", same: true,
		cut: "if not held then return", paste: "if not held then call('PEXPIRE', KEYS[2], ARGV[3]) return",
	},
	{
		name: "another's", script: lua.Renew, args: "a 30000 3600000", before: heldByB, reply: "-1", same: true,
		cut: "call('HEXISTS', name, ARGV[1])", paste: "call('EXISTS', name)",
	},
	{
		name: "held", script: lua.Renew, args: "a 30000 3600000", before: heldThree,
		reply: "1", hash: "a=3", lease: 30000, token: "5000", keep: 3600000,
		cut: "  call('PEXPIRE', name, lease)\n", paste: "",
	},
	{
		name: "the token is kept", script: lua.Renew, args: "a 30000 3600000", before: heldByA,
		reply: "1", hash: "a=1", lease: 30000, token: "5000", keep: 3600000,
		cut: "call('PEXPIRE', KEYS[2], ARGV[3])", paste: "",
	},
	{
		name: "a lease shorter than what is left", script: lua.Renew, args: "a 1000 3600000", before: heldByA,
		reply: "1", hash: "a=1", lease: 10000, token: "5000", keep: 20000,
		cut: "if call('PTTL', name) < lease then", paste: "if true then",
	},
	{
		name: "without a time to live", script: lua.Renew, args: "a 30000 3600000",
		before: "HSET LOCK a 1; SET TOKEN 5000",
		reply:  "1", hash: "a=1", lease: 30000, token: "5000", keep: 3600000,
		cut:   "if call('PTTL', name) < lease then",
		paste: "local ttl = call('PTTL', name)\nif ttl >= 0 and ttl < lease then",
	},
	{
		name: "no token is made", script: lua.Renew, args: "a 30000 3600000",
		before: "HSET LOCK a 1; PEXPIRE LOCK 10000",
		reply:  "1", hash: "a=1", lease: 30000,
		cut: "call('PEXPIRE', KEYS[2], ARGV[3])", paste: "call('SET', KEYS[2], '1', 'PX', ARGV[3])",
	},
	{
		name: "key of another type", script: lua.Renew, args: "a 30000 3600000", before: notALock, reply: "!WRONGTYPE",
		same: true,
		cut:  "local held = call", paste: "call('PEXPIRE', name, lease)\nlocal held = call",
	},
}

// No ARGV. No row changes anything.
var stateRows = []row{
	{
		name: "free, no token known", script: lua.State, reply: "0 0", same: true,
		cut: " or '0'", paste: " or ''",
	},
	{
		name: "free", script: lua.State, before: "SET TOKEN 5000 PX 20000", reply: "0 5000", same: true,
		cut: "return {0, token}", paste: "return {0, '0'}",
	},
	{
		name: "held", script: lua.State, before: heldThree, reply: "1 a 3 ttl:10000 5000", same: true,
		cut: "hash[1], hash[2]", paste: "hash[2], hash[1]",
	},
	{
		name: "held, no token known", script: lua.State, before: "HSET LOCK a 1; PEXPIRE LOCK 10000",
		reply: "1 a 1 ttl:10000 0", same: true,
		cut: " or '0'", paste: "",
	},
	{
		name: "held without a time to live", script: lua.State, before: "HSET LOCK a 1; SET TOKEN 5000",
		reply: "1 a 1 -1 5000", same: true,
		cut: "redis.call('PTTL', KEYS[1])", paste: "redis.call('TTL', KEYS[2]) - 1",
	},
	{
		name: "key of another type", script: lua.State, before: notALock, reply: "!WRONGTYPE", same: true,
		cut: "local fields", paste: "if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return {0, token} end\nlocal fields",
	},
	{
		name: "token of another type", script: lua.State, before: "RPUSH TOKEN x; PEXPIRE TOKEN 20000",
		reply: "!WRONGTYPE", same: true,
		cut: "redis.call('GET', KEYS[2]) or '0'", paste: "'0'",
	},
}
