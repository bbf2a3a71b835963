package integration_test

import "github.com/holdfast-go/holdfast/lua"

// ARGV: owner, command to announce, claim, time to live of the token's key, the last token.
var forceOwnerRows = []row{
	{
		name: "free", script: lua.ForceOwner, args: "c:h1 PUBLISH 1000 3600000 ''", before: "SET TOKEN 5000 PX 20000",
		reply: "-1 5000", same: true, cut: "if fields == 0 then", paste: "if false then",
	},
	{
		name: "free, no token known", script: lua.ForceOwner, args: "c:h1 PUBLISH 1000 3600000 ''", reply: "-1 0", same: true,
		cut: "call('GET', tokens) or '0', call('HLEN', name)", paste: "call('GET', tokens) or '', call('HLEN', name)",
	},
	{
		name: "another's", script: lua.ForceOwner, args: "c:h1 PUBLISH 1000 3600000 ''", before: heldByB, reply: "0 5000 b", same: true,
		fair: fair{listen: "all"}, cut: "if call('HEXISTS', name, owner) == 0 or", paste: "if",
	},
	{
		name: "another grant", script: lua.ForceOwner, args: "c:h1 PUBLISH 1000 3600000 4999", before: heldByC, reply: "0 5000 c:h1",
		same: true, fair: fair{listen: "all"}, cut: "or ARGV[5] ~= '' and ARGV[5] ~= last", paste: "",
	},
	{
		name: "it waits, and keeps its place", script: lua.ForceOwner, args: "d:h1 PUBLISH 1000 3600000 ''",
		before: heldByC + waiting("d:h1@60000"), reply: "0 5000 c:h1", same: true,
		cut: "if call('HEXISTS', name, owner) == 0 or", paste: "if",
	},
	{
		name: "of several owners", script: lua.ForceOwner, args: "c:h1 PUBLISH 1000 3600000 ''",
		before: "HSET LOCK mode read c:h1 1; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000", reply: "0 5000 mode", same: true,
		cut: "or call('HEXISTS', name, 'mode') == 1", paste: "",
	},
	{
		name: "held, nobody waits", script: lua.ForceOwner, args: "c:h1 PUBLISH 1000 3600000 5000", before: heldByC, reply: "1",
		token: "clock", keep: 3600000, fair: fair{listen: "all", told: "all:0"},
		cut: "untold = publish(command, channel, '0')", paste: "untold = publish(command, channel, '1')",
	},
	{
		name: "held without a time to live, and no token known", script: lua.ForceOwner, args: "c:h1 PUBLISH 1000 3600000 ''",
		before: "HSET LOCK c:h1 2", reply: "1", token: "clock", keep: 3600000, cut: "\ncall('DEL', name)\n", paste: "\n",
	},
	{
		name: "a waiter listens", script: lua.ForceOwner, args: "c:h1 PUBLISH 1000 3600000 ''",
		before: heldByC + waiting("d:h1@60000", "e:h1@60000"), reply: "1", hash: "d:h1=1", lease: 1000, token: "run", keep: 3600000,
		fair: fair{queue: "e:h1@60000", life: longLife, listen: "c d e", told: "d:h1/1000"},
		cut:  "local wrong, untold = grant(command, tonumber(ARGV[3]), keep)", paste: "local wrong, untold",
	},
	{
		name: "the token is kept for longer", script: lua.ForceOwner, args: "c:h1 PUBLISH 1000 3600000 ''",
		before: "HSET LOCK c:h1 1; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 7200000", reply: "1", token: "clock", keep: 7200000,
		cut: "math.max(tonumber(keep), call('PTTL', tokens))", paste: "keep",
	},
	{
		name: "a token is used up", script: lua.ForceOwner, args: "c:h1 PUBLISH 1000 3600000 8999999999999999",
		before: "HSET LOCK c:h1 1; PEXPIRE LOCK 10000; SET TOKEN 8999999999999999 PX 20000", reply: "1", token: "9000000000000000", keep: 3600000,
		cut: "call('SET', tokens, token, 'PX', math.max", paste: "call('SET', tokens, last, 'PX', math.max",
	},
	{
		name: "a leader", script: lua.ForceOwner, args: "c:h1 PUBLISH 1000 3600000 ''", before: heldByC + saidByC, reply: "1",
		token: "clock", keep: 3600000, fair: fair{listen: "observers", told: "observers:0"},
		cut: "if said then call('DEL', KEYS[6]) end", paste: "",
	},
	{
		name: "the token's key holds something else", script: lua.ForceOwner, args: "c:h1 PUBLISH 1000 3600000 ''",
		before: "HSET LOCK c:h1 1; SET TOKEN ten", reply: "!HOLDFAST", same: true,
		cut: "if refused then return refused end\nredis", paste: "token = 1\nredis",
	},
	{
		name: "key of another type", script: lua.ForceOwner, args: "c:h1 PUBLISH 1000 3600000 ''", before: notALock, reply: "!WRONGTYPE",
		same: true, cut: "local last, fields = call", paste: "call('DEL', name)\nlocal last, fields = call",
	},
}

// One writer, and the permits of one owner. ARGV as the releases take them, and the last token behind that.
var forceOthersRows = []row{
	{
		name: "it writes", script: lua.RwForceWriter, args: "u:h7 PUBLISH 5000", before: writeBy7 + waits8, reply: "1",
		token: "5000", keep: 20000, fair: fair{listen: "rw", told: "rw:1"}, readWrite: readWrite{writers: "u:h8@40000"},
		cut: "if ARGV[3] ~= ''", paste: "if ARGV[3] == '5000'  or ARGV[3] ~= ''",
	},
	{
		name: "another grant", script: lua.RwForceWriter, args: "u:h7 PUBLISH 4999", before: writeBy7, reply: "0 5000", same: true,
		fair: fair{listen: "rw"}, cut: "if ARGV[3] ~= '' and ARGV[3] ~= last then return {0, last} end", paste: "",
	},
	{
		name: "it waits, and keeps its place", script: lua.RwForceWriter, args: "u:h8 PUBLISH ''", before: writeBy9 + waits8,
		reply: "-1 5000", same: true, fair: fair{listen: "rw"}, cut: "  return {-1, last}\n", paste: "",
	},
	{
		name: "it has permits", script: lua.SemForce, args: "3 u:h7 PUBLISH 2000 3600000 5000", before: twoBy7, reply: "1",
		latched: latched{count: "3", stay: 60000}, token: "5000", keep: 20000, fair: fair{listen: "permits", told: "permits:3"},
		cut: "if n == 0 or call('ZREM', permits, owner .. '/2') == 0 then return n end", paste: "if true then return n end",
	},
	{
		name: "another grant", script: lua.SemForce, args: "3 u:h7 PUBLISH 2000 3600000 4999", before: twoBy7, reply: "0 5000", same: true,
		fair: fair{listen: "permits"}, cut: "if ARGV[6] ~= '' and ARGV[6] ~= last then return {0, last} end", paste: "",
	},
	{
		name: "it waits, and keeps its place", script: lua.SemForce, args: "3 u:h8 PUBLISH 2000 3600000 ''", before: threeBy9 + line8wide,
		reply: "-1 5000", same: true, cut: "    return {-1, last}\n", paste: "",
	},
	{
		name: "its lease has ended", script: lua.SemForce, args: "3 v:h9 PUBLISH 2000 3600000 ''", before: endedBy9, reply: "-1 5000", same: true,
		cut: "or tonumber(ends) <= time[1] * 1000 + math.floor(time[2] / 1000)", paste: "",
	},
}

// ARGV: how many of each list, the subcommand of PUBSUB, channels. What the lists have is looked at by the tests
// of package inspect, on all servers too. No row changes anything.
var inspectRows = []row{
	{
		name: "nothing", script: lua.Inspect, args: "8 NUMSUB a b c d", reply: "1 clock none -2", same: true,
		cut: "call('PTTL', name), size", paste: "0, size",
	},
	{
		name: "held", script: lua.Inspect, args: "8 NUMSUB a b c d", before: heldByB, reply: "1 clock hash ttl:10000 1 '' 5000", same: true,
		cut: "call('GETRANGE', KEYS[2], 0, 31)", paste: "call('GETRANGE', KEYS[2], 0, 1)",
	},
	{
		name: "a number", script: lua.Inspect, args: "8 '' a b c d", before: "SET LOCK 37 PX 60000", reply: "1 clock string ttl:60000 2", same: true,
		cut: "call('STRLEN', name)", paste: "1",
	},
	{
		name: "another spelling", script: lua.Inspect, args: "8 NUMSUB a b c d", before: "HSET {orders:42} b 1",
		reply: "1 clock none -2 '' '' '' 1", same: true, cut: "call('EXISTS', KEYS[11])", paste: "0",
	},
	{
		name: "keys of other types", script: lua.Inspect, args: "8 NUMSUB a b c d",
		before: "RPUSH LOCK x; RPUSH TOKEN x; SET QUEUE x; SET ENDS x; SET WRITERS x; SET PERMITS x; SET LINE x; HSET SAID a 1",
		reply:  "1 clock list -1", same: true, cut: "return kind == wanted", paste: "return kind ~= 'none'",
	},
}
