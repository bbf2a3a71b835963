package integration_test

import "github.com/holdfast-go/holdfast/lua"

// callable is the lock of an owner whose client wants to be called, by PUBLISH.
const callable = "HSET LOCK c:k7 1; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000"

// ARGV: those of acquireRows.
var recallRows = []row{
	{
		name: "another's, which is called", script: lua.Acquire, args: "a:k1 30000 3600000 0", before: callable,
		reply: "0 ttl:10000 c:k7", same: true,
		fair: fair{listen: "c all", told: "c:1"},
		cut:  ".. id, '1'", paste: ".. id, '2'",
	},
	{
		name: "another's, which cannot be called so", script: lua.Acquire, args: "a:k1 30000 3600000 0",
		before: "HSET LOCK c:h7 1; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000",
		reply:  "0 ttl:10000 c:h7", same: true,
		fair: fair{listen: "c"},
		cut:  ":([ks])%d+$", paste: ":([ksh])%d+$",
	},
	{
		name: "another's of the same client", script: lua.Acquire, args: "c:k1 30000 3600000 0", before: callable,
		reply: "0 ttl:10000 c:k7", same: true,
		fair: fair{listen: "c"},
		cut:  "if id and string.sub(owner, 1, #id) ~= id then", paste: "if id then",
	},
}
