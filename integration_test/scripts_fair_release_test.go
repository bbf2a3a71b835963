package integration_test

import "github.com/holdfast-go/holdfast/lua"

// ARGV: owner, command to announce, claim, time to live of the token's key.
const fairRelease = "c:h1 PUBLISH 1000 3600000"

var fairReleaseRows = []row{
	{
		name: "free, nobody waits", script: lua.FairRelease, args: fairRelease, reply: "-1", same: true,
		cut: "if not held then return {-1} end\n", paste: "",
	},
	{
		name: "held, nobody waits", script: lua.FairRelease, args: fairRelease, before: heldByC,
		reply: "1", token: "5000", keep: 20000, fair: fair{listen: "c d"},
		cut: "  call('DEL', name)\nelseif", paste: "elseif",
	},
	{
		name: "held more than once", script: lua.FairRelease, args: fairRelease,
		before: "HSET LOCK c:h1 3; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000", reply: "1", token: "5000", keep: 20000,
		cut: "  call('DEL', name)\nelseif", paste: "  call('HINCRBY', name, owner, -1)\nelseif",
	},
	{
		name: "held without a time to live", script: lua.FairRelease, args: fairRelease, before: "HSET LOCK c:h1 1",
		reply: "1",
		cut:   "  call('DEL', name)\nelseif", paste: "  call('PEXPIRE', name, 100000)\nelseif",
	},
	{
		name: "held, the waiter is out of reach", script: lua.FairRelease, args: fairRelease, before: heldByC +
			waiting("d:h1@60000"),
		reply: "1", token: "5000", keep: 20000, fair: fair{queue: "d:h1@60000", life: longLife},
		cut: "if deaf[id] then return nil end", paste: "",
	},
	{
		name: "held, the waiter listens", script: lua.FairRelease, args: fairRelease, before: heldByC +
			waiting("d:h1@60000", "e:h1@60000"),
		reply: "1", hash: "d:h1=1", lease: 1000, token: "clock", keep: 3600000,
		fair: fair{queue: "e:h1@60000", life: longLife, listen: "c d e", told: "d:h1/1000"},
		cut:  "handed + now + claim), owner)", paste: "handed + now + claim), owner)\n      call('RPUSH', queue, owner)",
	},
	{
		name: "held, a waiter of the same client listens", script: lua.FairRelease, args: fairRelease, before: heldByC +
			waiting("c:h2@60000"),
		reply: "1", hash: "c:h2=1", lease: 1000, token: "clock", keep: 3600000,
		fair: fair{listen: "c", told: "c:h2/1000"},
		cut:  "number .. ' ' .. token", paste: "owner .. ' ' .. token",
	},
	{
		name: "held, three of one client wait, then another, then the first", script: lua.FairRelease, args: fairRelease,
		before: heldByC + waiting("d:h1@60000", "d:h2@60000", "d:h3@60000", "e:h1@60000", "d:h4@60000"),
		reply:  "1", hash: "d:h1=1", lease: 1000, token: "run", keep: 3600000,
		fair: fair{queue: "d:h2@60000 d:h3@60000 e:h1@60000 d:h4@60000", life: longLife, listen: "c d e",
			told: "d:h1/1000/h2/h3"},
		cut: "if of ~= id then break end", paste: "",
	},
	{
		name: "held, and a run begins behind who is out of reach", script: lua.FairRelease, args: fairRelease,
		before: heldByC + waiting("e:h1@60000", "d:h1@60000", "d:h2@60000", "d:h3@60000"),
		reply:  "1", hash: "d:h1=1", lease: 1000, token: "run", keep: 3600000,
		fair: fair{queue: "e:h1@60000 d:h2@60000 d:h3@60000", life: longLife, listen: "d", told: "d:h1/1000/h2/h3"},
		cut:  "run(id, i - 1)", paste: "run(id, 0)",
	},
	{
		name: "held, Redisson's stands in a run", script: lua.FairRelease, args: fairRelease,
		before: heldByC + waiting("d:h1@60000", "d:h2@60000", "r:7@310000", "d:h3@325000.5"),
		reply:  "1", hash: "d:h1=1", lease: 1000, token: "run", keep: 3600000,
		fair: fair{queue: "d:h2@60000 r:7@310000 d:h3@325000.5", life: longLife, listen: "d", told: "d:h1/1000/h2"},
		cut:  "if of ~= id then break end", paste: "number = number or 'r'",
	},
	{
		name: "held, a run's tokens are ahead of the clock", script: lua.FairRelease, args: fairRelease,
		before: "HSET LOCK c:h1 1; SET TOKEN 9000000000000000" + waiting("d:h1@60000", "d:h2@60000"),
		reply:  "1", hash: "d:h1=1", lease: 1000, token: "9000000000000001", keep: 3600000,
		fair: fair{queue: "d:h2@60000", life: longLife, listen: "d", told: "d:h1/1000"},
		cut:  "if id and token == micros() then", paste: "if id then",
	},
	{
		name: "held, the end of a run", script: lua.FairRelease, args: fairRelease + " c:h2 c:h4",
		before: heldByC + waiting("c:h2@60000", "c:h3@60000", "c:h4@60000", "d:h1@60000"),
		reply:  "1", hash: "c:h3=1", lease: 1000, token: "clock", keep: 3600000,
		fair: fair{queue: "d:h1@60000", life: longLife, listen: "c d", told: "c:h3/1000"},
		cut:  "    if had[ARGV[j]] then drop(ARGV[j]) end", paste: "",
	},
	{
		name: "held, the end of a whole run", script: lua.FairRelease, args: fairRelease + " c:h2 c:h3",
		before: heldByC + waiting("c:h2@60000", "c:h3@60000", "d:h1@60000"),
		reply:  "1", hash: "d:h1=1", lease: 1000, token: "clock", keep: 3600000,
		fair: fair{listen: "c d", told: "d:h1/1000"},
		cut:  "  served(5)\n", paste: "",
	},
	{
		name: "another holds, the end of a run", script: lua.FairRelease, args: fairRelease + " c:h2 c:h3",
		before: "HSET LOCK d:h1 1; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000" + waiting("c:h2@60000", "c:h3@60000", "d:h2@60000"),
		reply:  "-1", hash: "d:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "d:h2@60000", life: longLife, listen: "c d"},
		cut:  "  served(5)\n", paste: "",
	},
	{
		name: "held, the token is ahead of the clock", script: lua.FairRelease, args: fairRelease,
		before: "HSET LOCK c:h1 1; SET TOKEN 9000000000000000" + waiting("d:h1@60000"),
		reply:  "1", hash: "d:h1=1", lease: 1000, token: "9000000000000001", keep: 3600000,
		fair: fair{listen: "d", told: "d:h1/1000"},
		cut:  "math.max(n + 1,", paste: "math.max(n,",
	},
	{
		name: "held, the head is dead", script: lua.FairRelease, args: fairRelease, before: heldByC +
			waiting("d:h1@0", "e:h1@60000"),
		reply: "1", hash: "e:h1=1", lease: 1000, token: "clock", keep: 3600000,
		fair: fair{listen: "d e", told: "e:h1/1000"},
		cut:  "(ends(some[n + 1]) or 0) <= now do", paste: "not ends(some[n + 1]) do",
	},
	{
		name: "held, all are dead", script: lua.FairRelease, args: fairRelease, before: heldByC +
			waiting("d:h1@0", "e:h1@-9", "r:7@0"),
		reply: "1", token: "5000", keep: 20000, fair: fair{listen: "d e r:7"},
		cut: "(ends(some[n + 1]) or 0) <= now do", paste: "not ends(some[n + 1]) do",
	},
	{
		name: "held, Redisson's is next", script: lua.FairRelease, args: fairRelease, before: heldByC +
			waiting("r:7@310000", "d:h1@325000.5"),
		reply: "1", hash: "r:7=0", lease: 2000, token: "clock", keep: 3600000,
		fair: fair{queue: "d:h1+15000.5", life: longLife, listen: "r:7 d", told: "r:7:0"},
		cut:  "channel .. ':' .. owner, '0')", paste: "channel .. ':' .. owner, '1')",
	},
	{
		name: "held, Redisson's alone wait", script: lua.FairRelease, args: fairRelease, before: heldByC + "; " +
			queueOf("r:7@310000", "r:8@610000"),
		reply: "1", hash: "r:7=0", lease: 2000, token: "clock", keep: 3600000,
		fair: fair{queue: "r:8+300000", life: forever, listen: "r:7 r:8", told: "r:7:0"},
		cut:  "id and '1' or '0'", paste: "'1'",
	},
	{
		name: "another's, not in the queue", script: lua.FairRelease, args: fairRelease, before: heldByX +
			waiting("d:h1@60000"),
		reply: "-1", same: true, fair: fair{listen: "d"},
		cut: "held or call('HLEN', name) == 0 then", paste: "true then",
	},
	{
		name: "another's, no queue", script: lua.FairRelease, args: fairRelease, before: heldByX, reply: "-1",
		same: true,
		cut:  "call('HEXISTS', name, owner) == 1", paste: "call('EXISTS', name) == 1",
	},
	{
		name: "another's, in the queue", script: lua.FairRelease, args: fairRelease,
		before: heldByX + waiting("d:h1@60000", "c:h1@60000", "r:7@360000"),
		reply:  "-1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "d:h1@60000 r:7@360000", life: longLife, listen: "d r:7"},
		cut:  "elseif call('ZCARD', deadlines) > 0 then\n  drop(owner)\n", paste: "elseif false then\n",
	},
	{
		name: "another's, alone in the queue", script: lua.FairRelease, args: fairRelease, before: heldByX +
			waiting("c:h1@60000"),
		reply: "-1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		cut: "  call('LREM', queue, 1, owner)\n", paste: "",
	},
	{
		name: "free, in the queue", script: lua.FairRelease, args: fairRelease,
		before: waiting("c:h1@60000", "d:h1@60000"),
		reply:  "-1", hash: "d:h1=1", lease: 1000, token: "clock", keep: 3600000,
		fair: fair{listen: "c d", told: "d:h1/1000"},
		cut:  "held or call('HLEN', name) == 0 then", paste: "held then",
	},
	{
		name: "handed to another since, repeated call", script: lua.FairRelease, args: fairRelease,
		before: "HSET LOCK d:h1 1; PEXPIRE LOCK 900; SET TOKEN 5000 PX 20000" + waiting("e:h1@60000"),
		reply:  "-1", same: true, fair: fair{listen: "d e"},
		cut: "held or call('HLEN', name) == 0 then", paste: "true then",
	},
	{
		name: "held, with a token that is no number", script: lua.FairRelease, args: fairRelease,
		before: "HSET LOCK c:h1 1; SET TOKEN text PX 20000" + waiting("d:h1@60000"),
		reply:  "1 error", token: "text", keep: 20000, fair: fair{queue: "d:h1@60000", life: longLife, listen: "d"},
		cut: "if refused then return refused end", paste: "if refused then return end",
	},
	{
		name: "held, with a token of another type", script: lua.FairRelease, args: fairRelease,
		before: "HSET LOCK c:h1 1; PEXPIRE LOCK 10000" + notAToken + waiting("d:h1@60000"),
		reply:  "1 error", fair: fair{queue: "d:h1@60000", life: longLife, listen: "d"},
		cut: "  call('DEL', name)\nelseif", paste: "elseif",
	},
	{
		name: "held, with a queue of another type", script: lua.FairRelease, args: fairRelease, before: heldByC +
			notAQueue,
		reply: "1 error", token: "5000", keep: 20000, fair: fair{life: 20000, broken: true},
		cut: "  call('DEL', name)\nelseif", paste: "elseif",
	},
	{
		name: "held, with deadlines of another type", script: lua.FairRelease, args: fairRelease,
		before: heldByC + "; RPUSH QUEUE d:h1; PEXPIRE QUEUE 20000" + notDeadlines,
		reply:  "1 error", token: "5000", keep: 20000, fair: fair{life: 20000, broken: true},
		cut: "  call('DEL', name)\nelseif", paste: "elseif",
	},
	{
		name: "another's, deadlines of another type", script: lua.FairRelease, args: fairRelease, before: heldByX +
			notDeadlines,
		reply: "!WRONGTYPE", same: true,
		cut: "elseif call('ZCARD', deadlines) > 0 then", paste: "elseif call('EXISTS', queue) > 0 then",
	},
	{
		name: "key of another type", script: lua.FairRelease, args: fairRelease, before: notALock, reply: "!WRONGTYPE",
		same: true,
		cut:  "local held = call('HEXISTS', name, owner) == 1", paste: "call('DEL', name)\nlocal held = false",
	},
}
