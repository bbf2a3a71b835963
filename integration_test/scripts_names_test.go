package integration_test

import "github.com/holdfast-go/holdfast/lua"

// The rows for a holder that may be known to the server by several names, because the lock was handed on within its client.

const heldByD = "HSET LOCK d 1; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000"

var recountNameRows = []row{
	{
		name: "known by the last of its names", script: lua.Recount, args: "a 2 30000 x b", before: heldByB,
		reply: "1", hash: "b=2", lease: 30000, token: "5000", keep: 20000,
		cut: "for i = 4, #ARGV do", paste: "for i = 4, 4 do",
	},
	{
		name: "known by another name, which it keeps", script: lua.Recount, args: "a 2 30000 b", before: heldByB,
		reply: "1", hash: "b=2", lease: 30000, token: "5000", keep: 20000,
		cut: "call('HSET', name, owner, ARGV[2])", paste: "call('HSET', name, ARGV[1], ARGV[2])",
	},
	{
		name: "known by none of its names", script: lua.Recount, args: "a 2 30000 b c", before: heldByD, reply: "-1", same: true,
		cut: "or call('HEXISTS', name, ARGV[i]) == 1 and ARGV[i]", paste: "or ARGV[i]",
	},
}

var releaseNameRows = []row{
	{
		name: "known by the last of its names", script: lua.Release, args: "a PUBLISH x b", before: heldByB,
		reply: "1", token: "5000", keep: 20000, fair: fair{listen: "all", told: "all:0"},
		cut: "for i = 3, #ARGV do", paste: "for i = 3, 3 do",
	},
	{
		name: "known by none of its names", script: lua.Release, args: "a PUBLISH b c", before: heldByD, reply: "-1", same: true,
		fair: fair{listen: "all"},
		cut:  "held or redis.call('HEXISTS', name, ARGV[i]) == 1", paste: "true",
	},
}

var renewNameRows = []row{
	{
		name: "a new name", script: lua.Renew, args: "a 30000 3600000 b", before: heldThree,
		reply: "1", hash: "b=3", lease: 30000, token: "5000", keep: 3600000,
		cut: "  call('DEL', name)\n", paste: "",
	},
	{
		name: "a new name, and the count stays", script: lua.Renew, args: "a 30000 3600000 b", before: heldThree,
		reply: "1", hash: "b=3", lease: 30000, token: "5000", keep: 3600000,
		cut: "call('HSET', name, new, count)", paste: "call('HSET', name, new, '1')",
	},
	{
		name: "a new name, and the time to live is new too", script: lua.Renew, args: "a 30000 3600000 b", before: heldByA,
		reply: "1", hash: "b=1", lease: 30000, token: "5000", keep: 3600000,
		cut: "call('PEXPIRE', name, math.max(ttl, lease))", paste: "",
	},
	{
		name: "a new name, and a lease shorter than what is left", script: lua.Renew, args: "a 1000 3600000 b", before: heldByA,
		reply: "1", hash: "b=1", lease: 10000, token: "5000", keep: 20000,
		cut: "math.max(ttl, lease)", paste: "lease",
	},
	{
		name: "a new name, without a time to live", script: lua.Renew, args: "a 30000 3600000 b", before: "HSET LOCK a 1; SET TOKEN 5000",
		reply: "1", hash: "b=1", lease: 30000, token: "5000", keep: 3600000,
		cut: "math.max(ttl, lease)", paste: "ttl",
	},
	{
		name: "a new name that it has already, by a call whose reply was lost", script: lua.Renew, args: "a 30000 3600000 b b", before: heldByB,
		reply: "1", hash: "b=1", lease: 30000, token: "5000", keep: 3600000,
		cut: "for i = 5, #ARGV do", paste: "for i = 6, #ARGV do",
	},
	{
		name: "a new name for who is known by the last of its names", script: lua.Renew, args: "a 30000 3600000 e x b", before: heldByB,
		reply: "1", hash: "e=1", lease: 30000, token: "5000", keep: 3600000,
		cut: "for i = 5, #ARGV do", paste: "for i = 5, 5 do",
	},
	{
		name: "no new name for who is known by another", script: lua.Renew, args: "a 30000 3600000 '' b", before: heldByB,
		reply: "1", hash: "b=1", lease: 30000, token: "5000", keep: 3600000,
		cut: "if new ~= '' and", paste: "new = new ~= '' and new or ARGV[1]\nif",
	},
	{
		name: "known by none of its names", script: lua.Renew, args: "a 30000 3600000 e b c", before: heldByD, reply: "-1", same: true,
		cut: "or call('HEXISTS', name, ARGV[i]) == 1 and ARGV[i]", paste: "or ARGV[i]",
	},
	{
		name: "a new name, that of the lock's holder, who is another", script: lua.Renew, args: "a 30000 3600000 d", before: heldByD,
		reply: "-1", same: true,
		cut: "for i = 5, #ARGV do", paste: "for i = 4, #ARGV do",
	},
	{
		name: "a new name, free", script: lua.Renew, args: "a 30000 3600000 b", reply: "-1", same: true,
		cut: "  return {-1}\n", paste: "",
	},
}
