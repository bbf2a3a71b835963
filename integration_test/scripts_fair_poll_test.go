package integration_test

import "github.com/holdfast-go/holdfast/lua"

// ARGV: client, command to announce, claim, time to live of the token's key, how long a place
// counts, owners.
const fairPoll = "c PUBLISH 1000 3600000 15000 "

// One client, or several, of the library.
var fairPollRows = []row{
	{
		name: "nothing there", script: lua.FairPoll, args: fairPoll, reply: "1 -2 clock '' '' '' ''", same: true,
		cut: "whose() or ''", paste: "whose() or 'nobody'",
	},
	{
		name: "no place", script: lua.FairPoll, args: fairPoll + "c:h1 c:h2 c:h3", before: heldByX +
			waiting("c:h2@60000"),
		reply: "1 ttl:10000 clock x:h1 '' '' '' c:h1 c:h3", same: true,
		cut: "missing[#missing + 1] = ARGV[i]", paste: "",
	},
	{
		name: "places put off", script: lua.FairPoll, args: fairPoll + "c:h1 c:h2",
		before: heldByX + waiting("c:h1@5000", "d:h1@5000", "c:h2@9000", "c:h3@5000"),
		reply:  "1 ttl:10000 clock x:h1 '' 1 ''", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "c:h1+15000 d:h1@5000 c:h2+15000 c:h3@5000", life: longLife, listen: "c d"},
		cut:  "if deadline < latest then call('ZADD'", paste: "if false then call('ZADD'",
	},
	{
		name: "a place that ends late enough", script: lua.FairPoll, args: fairPoll + "c:h1", before: heldByX +
			waiting("c:h1@60000"),
		reply: "1 ttl:10000 clock x:h1 '' '' ''", same: true,
		cut: "if deadline < latest then call('ZADD'", paste: "if true then call('ZADD'",
	},
	{
		name: "time to live put off", script: lua.FairPoll, args: fairPoll + "c:h1", before: heldByX + "; " +
			queueOf("c:h1@5000") + lifeOf(30000),
		reply: "1 ttl:10000 clock x:h1 '' '' ''", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "c:h1+15000", life: 3615000},
		cut:  "if latest > 0 then limit(latest) end", paste: "",
	},
	{
		name: "no places to put off", script: lua.FairPoll, args: fairPoll, before: heldByX + "; " +
			queueOf("c:h1@5000") + lifeOf(30000),
		reply: "1 ttl:10000 clock x:h1 '' '' ''", same: true,
		cut: "if latest > 0 then limit(latest) end", paste: "limit(now + place)",
	},
	{
		name: "repair of a queue without deadlines", script: lua.FairPoll, args: fairPoll + "c:h1",
		before: heldByX + "; RPUSH QUEUE d:h1 c:h2 e:h1; PEXPIRE QUEUE 8000000; ZADD ENDS @60000 d:h1; PEXPIRE ENDS 8000000",
		reply:  "1 ttl:10000 clock x:h1 '' '' '' c:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair:  fair{queue: "d:h1@60000", life: longLife},
		cut:   "if call('LLEN', queue) ~= call('ZCARD', deadlines)",
		paste: "if false and call('ZCARD', deadlines) ~= call('ZCARD', deadlines)",
	},
	{
		name: "repair of deadlines without a queue", script: lua.FairPoll, args: fairPoll + "c:h1",
		before: heldByX + "; ZADD ENDS @60000 c:h1; PEXPIRE ENDS 60000",
		reply:  "1 ttl:10000 clock x:h1 '' '' '' c:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		cut: "if not queued[owner] and ends(owner) then call('ZREM', deadlines, owner) end", paste: "",
	},
	{
		name: "repair of both", script: lua.FairPoll, args: fairPoll + "c:h1",
		before: heldByX + waiting("c:h1@60000") + "; RPUSH QUEUE d:h1 e:h1; ZADD ENDS @60000 f:h1",
		reply:  "1 ttl:10000 clock x:h1 '' '' ''", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "c:h1@60000", life: longLife},
		cut:  "call('LREM', queue, 0, owner) end\n  end", paste: "end\n  end",
	},
	{
		name: "behind three other clients", script: lua.FairPoll, args: fairPoll,
		before: heldByX + waiting("d:h1@60000", "e:h1@60000", "e:h2@60000", "f:h1@60000", "c:h1@60000"),
		reply:  "1 ttl:10000 clock x:h1 '' '' ''", same: true,
		cut: "if not seen[of] then before", paste: "if true then before",
	},
	{
		name: "behind four other clients", script: lua.FairPoll, args: fairPoll,
		before: heldByX + waiting("d:h1@60000", "e:h1@60000", "f:h1@60000", "g:h1@60000", "c:h1@60000"),
		reply:  "1 ttl:10000 clock x:h1 '' '' 1", same: true,
		cut: "before > 3 and 1", paste: "before > 4 and 1",
	},
	{
		name: "free, handed to another", script: lua.FairPoll, args: fairPoll,
		before: waiting("d:h1@60000", "c:h1@60000"),
		reply:  "1 ttl:1000 clock d:h1 '' 1 ''", hash: "d:h1=1", lease: 1000, token: "clock", keep: 3600000,
		fair: fair{queue: "c:h1@60000", life: longLife, listen: "c d", told: "d:h1/1000"},
		cut:  "local failed = grant(ARGV[2], tonumber(ARGV[3]), ARGV[4], id)", paste: "local failed",
	},
	{
		name: "free, handed to the caller itself, who missed it", script: lua.FairPoll, args: fairPoll,
		before: waiting("c:h1@60000"),
		reply:  "1 ttl:1000 clock c:h1 '' '' ''", hash: "c:h1=1", lease: 1000, token: "clock", keep: 3600000,
		cut: "if id and id ~= present then", paste: "if id then",
	},
	{
		name: "free, dead head", script: lua.FairPoll, args: fairPoll, before: waiting("d:h1@0", "r:7@0"),
		reply: "1 -2 clock '' '' '' ''", fair: fair{listen: "d r:7"},
		cut: "(ends(some[n + 1]) or 0) <= now do", paste: "not ends(some[n + 1]) do",
	},
	{
		name: "held, not handed over", script: lua.FairPoll, args: fairPoll, before: heldByX + waiting("d:h1@60000"),
		reply: "1 ttl:10000 clock x:h1 '' '' ''", same: true, fair: fair{listen: "d"},
		cut: "if call('HLEN', name) == 0 and", paste: "if",
	},
	{
		name: "key of another type", script: lua.FairPoll, args: fairPoll, before: notALock + waiting("c:h1@60000"),
		reply: "!WRONGTYPE", same: true,
		cut: "if call('HLEN', name) == 0 and call('LLEN', queue) > 0 then", paste: "call('DEL', name)\nif false then",
	},
	{
		name: "queue of another type", script: lua.FairPoll, args: fairPoll + "c:h1", before: heldByX + notAQueue,
		reply: "!WRONGTYPE", same: true,
		cut:   "local id, place = ARGV[1], tonumber(ARGV[5])",
		paste: "local id, place = ARGV[1], tonumber(ARGV[5])\ncall('DEL', queue)",
	},
	{
		name: "deadlines of another type", script: lua.FairPoll, args: fairPoll + "c:h1", before: heldByX +
			notDeadlines,
		reply: "!WRONGTYPE", same: true,
		cut:   "local id, place = ARGV[1], tonumber(ARGV[5])",
		paste: "local id, place = ARGV[1], tonumber(ARGV[5])\ncall('DEL', deadlines)",
	},
	{
		name: "token of another type", script: lua.FairPoll, args: fairPoll, before: notAToken + waiting("c:h1@60000"),
		reply: "!WRONGTYPE", same: true,
		cut: "call('GET', tokens), micros()\n", paste: "false, micros()\n",
	},
	{
		name: "token that is no number", script: lua.FairPoll, args: fairPoll, before: "SET TOKEN text PX 20000" +
			waiting("c:h1@60000"),
		reply: "!HOLDFAST", same: true, fair: fair{listen: "c"},
		cut: "if failed then return failed end\nend\nlocal holder", paste: "end\nlocal holder",
	},
}

// No ARGV. No row changes anything.
var fairStateRows = []row{
	{
		name: "free, no token known", script: lua.FairState, reply: "0 0 ''", same: true,
		cut: "call('GET', tokens) or '0'", paste: "call('GET', tokens) or ''",
	},
	{
		name: "free, with waiters", script: lua.FairState, before: "SET TOKEN 5000 PX 20000" +
			waiting("c:h1@60000", "d:h1@-5", "r:7@360000"),
		reply: "0 5000 2", same: true,
		cut: "local now = time[1]", paste: "local now = -time[1]",
	},
	{
		name: "held, with waiters", script: lua.FairState, before: heldThree + waiting("c:h1@60000"),
		reply: "1 a 3 ttl:10000 5000 1", same: true,
		cut:   "return {1, owner, count, call('PTTL', name), token, waiters}",
		paste: "return {1, count, owner, call('PTTL', name), token, waiters}",
	},
	{
		name: "held, nobody waits", script: lua.FairState, before: "HSET LOCK a 1", reply: "1 a 1 -1 0 ''", same: true,
		cut: "call('PTTL', name), token, waiters}", paste: "0, token, waiters}",
	},
	{
		name: "key of another type", script: lua.FairState, before: notALock, reply: "!WRONGTYPE", same: true,
		cut: "local n = call('HLEN', name)", paste: "if call('TYPE', name).ok ~= 'hash' then return end\nlocal n = call('HLEN', name)",
	},
	{
		name: "token of another type", script: lua.FairState, before: notAToken, reply: "!WRONGTYPE", same: true,
		cut: "call('GET', tokens) or '0'", paste: "'0'",
	},
	{
		name: "deadlines of another type", script: lua.FairState, before: heldByX + notDeadlines, reply: "!WRONGTYPE",
		same: true,
		cut:  "local token, waiters", paste: "call('DEL', deadlines)\nlocal token, waiters",
	},
}
