package integration_test

import "github.com/holdfast-go/holdfast/lua"

// Readers and writers that go, and places that are given back. ARGV: owner, command to announce.
var rwReleaseRows = []row{
	{
		name: "the last reader", script: lua.RwReadRelease, args: "u:h7 PUBLISH", before: readBy7,
		reply: "1", token: "5000", keep: 20000, fair: fair{listen: "rw", told: "rw:1"},
		cut: "else call('DEL', name) end\nif command", paste: "end\nif command",
	},
	{
		name: "the last reader, nobody is told", script: lua.RwReadRelease, args: "u:h7 ''", before: readBy7,
		reply: "1", token: "5000", keep: 20000, fair: fair{listen: "rw"},
		cut: "if command ~= '' then", paste: "if true then",
	},
	{
		name: "free", script: lua.RwReadRelease, args: "u:h7 PUBLISH", reply: "-1", same: true,
		cut: "== 0 then return {-1} end", paste: "== 0 then end",
	},
	{
		name: "another reads", script: lua.RwReadRelease, args: "u:h7 PUBLISH", before: readBy9, reply: "-1", same: true,
		cut: "call('HDEL', name, ARGV[1]) == 0 then", paste: "call('HDEL', name, ARGV[1]) == 2 then",
	},
	{
		name: "others read", script: lua.RwReadRelease, args: "u:h7 PUBLISH", before: readBy79,
		reply: "1", hash: "mode=read u:h9=2", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h9=45000"}, fair: fair{listen: "rw"},
		cut: "if rest > ends then return {1} end", paste: "",
	},
	{
		name: "others read, and nobody listens", script: lua.RwReadRelease, args: "u:h7 PUBLISH",
		before: deadBy9 + "; HSET LOCK u:h7 1; SET READS:u:h7 1 PX 45000",
		reply:  "1", hash: "mode=read u:h9=1", lease: 60000, token: "5000", keep: 20000,
		cut: "if heard[2] == 0 then return {1} end", paste: "",
	},
	{
		name: "the others' leases have ended", script: lua.RwReadRelease, args: "u:h7 PUBLISH",
		before: deadBy9 + "; HSET LOCK u:h7 1; SET READS:u:h7 1 PX 45000",
		reply:  "1", token: "5000", keep: 20000, fair: fair{listen: "rw", told: "rw:1"},
		cut: "if heard[2] == 0 then return {1} end", paste: "if true then return {1} end",
	},
	{
		name: "the owner writes", script: lua.RwReadRelease, args: "u:h7 PUBLISH", before: bothBy7,
		reply: "1", hash: "mode=write u:h7:write=1", lease: 60000, token: "5000", keep: 20000, fair: fair{listen: "rw"},
		cut: "if not stays then return {1} end", paste: "if not stays then stays = 0 end",
	},
	{
		name: "writer", script: lua.RwWriteRelease, args: "u:h7 PUBLISH", before: writeBy7,
		reply: "1", token: "5000", keep: 20000, fair: fair{listen: "rw", told: "rw:1"},
		cut: "else\n  call('DEL', name)\nend", paste: "end",
	},
	{
		name: "writer, whom a late attempt gave a place", script: lua.RwWriteRelease, args: "u:h8 PUBLISH",
		before: "HSET LOCK mode write u:h8:write 1; PEXPIRE LOCK 60000; SET TOKEN 5000 PX 20000" + waits8,
		reply:  "1", token: "5000", keep: 20000, fair: fair{listen: "rw", told: "rw:1"},
		cut: "call('ZREM', KEYS[3], ARGV[1]) --", paste: "--",
	},
	{
		name: "writer, another waits", script: lua.RwWriteRelease, args: "u:h7 PUBLISH", before: writeBy7 + waits8,
		reply: "1", token: "5000", keep: 20000, fair: fair{listen: "rw", told: "rw:1"},
		readWrite: readWrite{writers: "u:h8@40000"},
		cut:       "local to, text = KEYS[2], '1'\n  local sent", paste: "local to, text = KEYS[2], '0'\n  local sent",
	},
	{
		name: "another writes", script: lua.RwWriteRelease, args: "u:h7 PUBLISH", before: writeBy9, reply: "-1", same: true,
		cut: "if call('HEXISTS', name, field) == 0 then", paste: "if call('EXISTS', name) == 0 then",
	},
	{
		name: "the owner goes on reading", script: lua.RwWriteRelease, args: "u:h7 PUBLISH", before: bothBy7,
		reply: "1", hash: "mode=read u:h7=1", lease: 40000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=40000"}, fair: fair{listen: "rw", told: "rw:1"},
		cut: "call('PEXPIRE', name, rest)", paste: "",
	},
	{
		name: "the owner goes on reading, by another name", script: lua.RwWriteRelease, args: "u:h7 PUBLISH",
		before: writeBy7 + "; HSET LOCK u:h8 1; SET READS:u:h8 1 PX 40000",
		reply:  "1", hash: "mode=read u:h8=1", lease: 40000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h8=40000"}, fair: fair{listen: "rw", told: "rw:1"},
		cut: "call('PTTL', prefix .. owner", paste: "call('PTTL', prefix .. ARGV[1]",
	},
	{
		name: "the owner's lease to read has ended", script: lua.RwWriteRelease, args: "u:h7 PUBLISH",
		before: writeBy7 + "; HSET LOCK u:h7 1",
		reply:  "1", token: "5000", keep: 20000, fair: fair{listen: "rw", told: "rw:1"},
		cut: "if rest > 0 then\n  call('PEXPIRE'", paste: "if rest then\n  call('PEXPIRE'",
	},
	{
		name: "the last place", script: lua.RwWriteRelease, args: "u:h8 PUBLISH", before: readBy9 + waits8,
		reply: "-1", hash: "mode=read u:h9=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h9=60000"}, fair: fair{listen: "rw", told: "rw:1"},
		cut: "then tell() end", paste: "then end",
	},
	{
		name: "a place, and another waits", script: lua.RwWriteRelease, args: "u:h7 PUBLISH",
		before: readBy9 + waits8 + "; ZADD WRITERS @3000 u:h7",
		reply:  "-1", hash: "mode=read u:h9=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h9=60000", writers: "u:h8@40000"}, fair: fair{listen: "rw"},
		cut: "if call('ZCOUNT', KEYS[3], '(' .. now, '+inf') == 0 then", paste: "if true then",
	},
	{
		name: "the last place that counts", script: lua.RwWriteRelease, args: "u:h7 PUBLISH",
		before: readBy9 + waits8 + "; ZADD WRITERS @3000 u:h7; ZADD WRITERS @-1000 u:h8",
		reply:  "-1", hash: "mode=read u:h9=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h9=60000", writers: "u:h8@-1000"}, fair: fair{listen: "rw", told: "rw:1"},
		cut: "call('ZCOUNT', KEYS[3], '(' .. now, '+inf') == 0", paste: "call('EXISTS', KEYS[3]) == 0",
	},
}

// Renewals and counts of readers, and what people ask.
var rwOtherRows = []row{
	{
		name: "renewed", script: lua.RwReadRenew, args: "u:h7 90000 3600000 0", before: readBy79,
		reply: "1", hash: "mode=read u:h7=1 u:h9=2", lease: 90000, token: "5000", keep: 3600000,
		readWrite: readWrite{reads: "u:h7=90000 u:h9=45000"},
		cut:       "call('PEXPIRE', name, math.max(ms, call('PTTL', name)))", paste: "",
	},
	{
		name: "not shortened", script: lua.RwReadRenew, args: "u:h7 3000 3000 0", before: readBy79,
		reply: "1", hash: "mode=read u:h7=1 u:h9=2", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=60000 u:h9=45000"},
		cut:       "math.max(ms, call('PTTL', KEYS[3]))", paste: "ms",
	},
	{
		name: "counted", script: lua.RwReadRenew, args: "u:h7 3000 3000 3", before: readBy7,
		reply: "1", hash: "mode=read u:h7=3", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=60000"},
		cut:       "if ARGV[4] ~= '0' then", paste: "if false then",
	},
	{
		name: "does not read", script: lua.RwReadRenew, args: "u:h7 30000 3600000 1", before: writeBy7, reply: "-1", same: true,
		cut: "call('HEXISTS', name, ARGV[1]) == 1", paste: "call('EXISTS', name) == 1",
	},
	{
		name: "free", script: lua.RwState, before: "SET TOKEN 5000 PX 20000" + waits8, reply: "0 5000 1", same: true,
		cut: "'(' .. now, '+inf'", paste: "'-inf', '(' .. now",
	},
	{
		name: "read", script: lua.RwState, before: readBy79 + waited8,
		reply: "1 read ttl:60000 5000 '' u:h7 1 ttl:60000 u:h9 2 ttl:45000", same: true,
		cut: "local left = reply[3]", paste: "local left = 1 reply[3] = 1",
	},
	{
		name: "written", script: lua.RwState, before: bothBy7,
		reply: "1 write ttl:60000 5000 '' u:h7:write 1 ttl:60000 u:h7 1 ttl:40000", same: true,
		cut: "elseif not writes then", paste: "elseif false then",
	},
	{
		name: "no read-write lock", script: lua.RwState, before: heldByB, reply: "!HOLDFAST", same: true,
		cut: "if not known or fields > 1025 then", paste: "if fields > 1025 then",
	},
	{
		name: "a mode of somebody else's", script: lua.RwState, before: "HSET LOCK mode strange a 1; PEXPIRE LOCK 60000", reply: "!HOLDFAST",
		same: true, cut: "local known = mode == 'read' or mode == 'write'", paste: "local known = mode",
	},
	{
		name: "two of three", script: lua.RwForce, args: "- PUBLISH u:h7 u:h9 u:h5",
		before: readBy79 + "; HSET LOCK u:h8 1; SET READS:u:h8 1 PX 20000",
		reply:  "1", hash: "mode=read u:h8=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h8=20000"}, fair: fair{listen: "rw", told: "rw:1"},
		cut: "for n = 1, math.min(count, 16) do", paste: "for n = 1, 0 do",
	},
	{
		name: "all", script: lua.RwForce, args: "- PUBLISH r:1", before: redissons,
		reply: "1", token: "5000", keep: 20000, fair: fair{listen: "rw", told: "rw:1"},
		cut: "if call('HLEN', name) == 1 and", paste: "if false and",
	},
	{
		name: "somebody else", script: lua.RwForce, args: "- PUBLISH u:h9", before: readBy7, reply: "-1", same: true,
		fair: fair{listen: "rw"},
		cut:  "if found == 0 then", paste: "if false then",
	},
}
