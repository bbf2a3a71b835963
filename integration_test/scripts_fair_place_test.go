package integration_test

import "github.com/holdfast-go/holdfast/lua"

// The lock is another's: who waits takes a place.
var fairPlaceRows = []row{
	{
		name: "place taken", script: lua.FairAcquire, args: fairWait, before: heldByX,
		reply: "0 ttl:10000 clock '' x:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair:  fair{queue: "c:h1+15000", life: 3615000},
		cut:   "if call('RPUSH', queue, owner) == 1 or others then limit(tonumber(deadline)) end",
		paste: "call('RPUSH', queue, owner)",
	},
	{
		name: "repeated call whose first attempt did not run", script: lua.FairAcquire, args: fairWaitAgain,
		before: heldByX,
		reply:  "0 ttl:10000 clock '' x:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "c:h1+15000", life: 3615000},
		cut:  "    call('PEXPIRE', deadlines, ttl)\n", paste: "",
	},
	{
		name: "no place for a try", script: lua.FairAcquire, args: fairTry, before: heldByX,
		reply: "0 ttl:10000 clock '' x:h1", same: true,
		cut: "place > 0 and enqueue(owner, place)", paste: "enqueue(owner, 15000)",
	},
	{
		name: "held without a time to live", script: lua.FairAcquire, args: fairTry, before: "HSET LOCK x:h1 1",
		reply: "0 -1 clock '' x:h1", same: true,
		cut: "call('PTTL', name), clock, foreign", paste: "math.max(0, call('PTTL', name)), clock, foreign",
	},
	{
		name: "four fields", script: lua.FairAcquire, args: fairTry, before: "HSET LOCK x:h1 1 c 2 d 3 e 4",
		reply: "0 -1 clock '' x:h1 c d e", same: true,
		cut: "hash[1], hash[3]", paste: "hash[1], hash[2]",
	},
	{
		name: "five fields", script: lua.FairAcquire, args: fairTry, before: "HSET LOCK x:h1 1 c 2 d 3 e 4 f 5",
		reply: "0 -1 clock '' 5", same: true,
		cut: "and 'mode' or fields", paste: "and 'mode' or 4",
	},
	{
		name: "five fields of a lock of another kind", script: lua.FairAcquire, args: fairTry,
		before: "HSET LOCK x:h1 1 c 2 mode 3 e 4 f 5",
		reply:  "0 -1 clock '' mode", same: true,
		cut: "call('HEXISTS', name, 'mode') == 1", paste: "false",
	},
	{
		name: "behind another", script: lua.FairAcquire, args: fairWait, before: heldByX + waiting("d:h1@9000"),
		reply: "0 ttl:10000 clock '' x:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "d:h1@9000 c:h1+15000", life: longLife, listen: "d"},
		cut:  "call('RPUSH', queue, owner)", paste: "call('LPUSH', queue, owner)",
	},
	{
		name: "place kept when asked again", script: lua.FairAcquire, args: fairWait, before: heldByX +
			waiting("c:h1@9000", "d:h1@60000"),
		reply: "0 ttl:10000 clock '' x:h1", same: true,
		cut: "'NX', ", paste: "",
	},
	{
		name: "dead head left to who hands the lock on", script: lua.FairAcquire, args: fairTry, before: heldByX +
			waiting("d:h1@0", "e:h1@60000"),
		reply: "0 ttl:10000 clock '' x:h1", same: true,
		cut: "if not held then\n  local first = head()\n", paste: "local first = head()\nif not held then\n",
	},
	{
		name: "own place that has ended is left to the poll", script: lua.FairAcquire, args: fairWait,
		before: heldByX + waiting("c:h1@0", "d:h1@60000"),
		reply:  "0 ttl:10000 clock '' x:h1", same: true,
		cut: "'NX', ", paste: "",
	},
	{
		name: "behind Redisson's", script: lua.FairAcquire, args: fairWait, before: heldByX + waiting("r:7@310000"),
		reply: "0 ttl:10000 clock 1 x:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "r:7@310000 c:h1@325000.5", life: longLife, listen: "r:7"},
		cut:  "deadline = deadline + 0.5", paste: "",
	},
	{
		name: "behind Redisson's that has ended", script: lua.FairAcquire, args: fairWait,
		before: heldByX + waiting("d:h1@60000", "r:7@-400000"),
		reply:  "0 ttl:10000 clock 1 x:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "d:h1@60000 r:7@-400000 c:h1+315000.5", life: longLife},
		cut:  "call('RPUSH', queue, owner)", paste: "call('LPUSH', queue, owner)",
	},
	{
		// It waited for 280 s, and its grant will take 300 s off all the same.
		name: "behind Redisson's that has waited for long", script: lua.FairAcquire, args: fairWait, before: heldByX +
			waiting("r:7@30000"),
		reply: "0 ttl:10000 clock 1 x:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "r:7@30000 c:h1+315000.5", life: longLife},
		cut:  "local foreignWait = 300000", paste: "local foreignWait = 0",
	},
	{
		name: "behind two of Redisson's", script: lua.FairAcquire, args: fairWait, before: heldByX +
			waiting("r:7@310000", "r:8@610000"),
		reply: "0 ttl:10000 clock 1 x:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "r:7@310000 r:8@610000 c:h1@625000.5", life: longLife},
		cut:  "deadline = deadline + 0.5", paste: "",
	},
	{
		name: "Redisson's have gone, and the room for them is there still", script: lua.FairAcquire, args: fairWait,
		before: heldByX + waiting("d:h1@5000", "d:h2@300000.5"),
		reply:  "0 ttl:10000 clock '' x:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "d:h1@5000 d:h2@300000.5 c:h1+15000.5", life: longLife},
		cut:  "deadline = deadline + 0.5", paste: "",
	},
	{
		name: "a queue of Redisson's gets an end", script: lua.FairAcquire, args: fairWait, before: heldByX + "; " +
			queueOf("r:7@310000"),
		reply: "0 ttl:10000 clock 1 x:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "r:7@310000 c:h1@325000.5", life: 3925001},
		cut:  "    call('PEXPIRE', deadlines, ttl)\n", paste: "",
	},
	{
		name: "time to live left to the polls", script: lua.FairAcquire, args: fairWait, before: heldByX + "; " +
			queueOf("d:h1@9000") + lifeOf(30000),
		reply: "0 ttl:10000 clock '' x:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "d:h1@9000 c:h1+15000", life: 30000},
		cut:  "owner) == 1 or others then", paste: "owner) > 0 then",
	},
	{
		name: "time to live long enough", script: lua.FairAcquire, args: fairWait, before: heldByX + "; " +
			queueOf("r:7@310000") + lifeOf(3400000),
		reply: "0 ttl:10000 clock 1 x:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "r:7@310000 c:h1@325000.5", life: 3400000},
		cut:  "< ttl - 600000", paste: "< ttl",
	},
	{
		name: "held, queue of another type", script: lua.FairAcquire, args: fairWait, before: heldByX + notAQueue,
		reply: "!WRONGTYPE", same: true,
		cut:   "local tail = call('LINDEX', queue, -1)",
		paste: "call('DEL', queue)\n  local tail = call('LINDEX', queue, -1)",
	},
	{
		name: "held, deadlines of another type", script: lua.FairAcquire, args: fairWait, before: heldByX +
			notDeadlines,
		reply: "!WRONGTYPE", same: true,
		cut: "if call('ZADD', deadlines, 'NX',", paste: "call('RPUSH', queue, owner)\n  if call('ZADD', deadlines, 'NX',",
	},
}

// The lock is free and others wait: it is handed to the first that can be reached.
var fairHandRows = []row{
	{
		name: "nobody passes a waiter", script: lua.FairAcquire, args: fairTry, before: waiting("d:h1@60000"),
		reply: "0 ttl:1000 clock '' d:h1", hash: "d:h1=1", lease: 1000, token: "clock", keep: 3600000,
		fair: fair{listen: "d", told: "d:h1/1000"},
		cut:  "if not first or first == owner then", paste: "if true then",
	},
	{
		name: "out of reach", script: lua.FairAcquire, args: fairTry, before: waiting("d:h1@60000", "e:h1@60000"),
		reply: "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		fair: fair{queue: "d:h1@60000 e:h1@60000", life: longLife},
		cut:  "if call('HLEN', name) == 0 then return take(true) end", paste: "",
	},
	{
		name: "handed over", script: lua.FairAcquire, args: fairTry, before: waiting("d:h1@60000", "e:h1@60000"),
		reply: "0 ttl:1000 clock '' d:h1", hash: "d:h1=1", lease: 1000, token: "clock", keep: 3600000,
		fair: fair{queue: "e:h1@60000", life: longLife, listen: "d e", told: "d:h1/1000"},
		cut:  "call('ZADD', deadlines, string.format('%.0f', handed + now + claim), owner)", paste: "",
	},
	{
		name: "handed over, with the token's end", script: lua.FairAcquire, args: fairTry,
		before: waiting("d:h1@60000"),
		reply:  "0 ttl:1000 clock '' d:h1", hash: "d:h1=1", lease: 1000, token: "clock", keep: 3600000,
		fair:  fair{listen: "d", told: "d:h1/1000"},
		cut:   "call('SET', tokens, last, 'PX', keep)\n    local failed",
		paste: "call('SET', tokens, last)\n    local failed",
	},
	{
		name: "handed over, and the caller waits behind", script: lua.FairAcquire, args: fairWait,
		before: waiting("d:h1@60000"),
		reply:  "0 ttl:1000 clock '' d:h1", hash: "d:h1=1", lease: 1000, token: "clock", keep: 3600000,
		fair: fair{queue: "c:h1+15000", life: longLife, listen: "c d", told: "d:h1/1000"},
		cut:  "place > 0 and enqueue(owner, place)", paste: "false",
	},
	{
		name: "passed over", script: lua.FairAcquire, args: fairTry,
		before: waiting("d:h1@60000", "d:h2@60000", "e:h1@60000"),
		reply:  "0 ttl:1000 clock '' e:h1", hash: "e:h1=1", lease: 1000, token: "clock", keep: 3600000,
		fair:  fair{queue: "d:h1@60000 d:h2@60000", life: longLife, listen: "e", told: "e:h1/1000"},
		cut:   "for i, owner in ipairs(some) do\n      deadline =",
		paste: "for i, owner in ipairs({}) do\n      deadline =",
	},
	{
		name: "a place that has ended behind one that is passed over", script: lua.FairAcquire, args: fairTry,
		before: waiting("d:h1@60000", "e:h1@0", "f:h1@60000"),
		reply:  "0 ttl:1000 clock '' f:h1", hash: "f:h1=1", lease: 1000, token: "clock", keep: 3600000,
		fair: fair{queue: "d:h1@60000 e:h1@0", life: longLife, listen: "e f", told: "f:h1/1000"},
		cut:  "if not deadline or deadline <= now then return nil end", paste: "if not deadline then return nil end",
	},
	{
		name: "a place that has ended is not its client's end", script: lua.FairAcquire, args: fairTry,
		before: waiting("d:h1@60000", "e:h1@0", "e:h2@60000"),
		reply:  "0 ttl:1000 clock '' e:h2", hash: "e:h2=1", lease: 1000, token: "clock", keep: 3600000,
		fair:  fair{queue: "d:h1@60000 e:h1@0", life: longLife, listen: "e", told: "e:h2/1000"},
		cut:   "if not deadline or deadline <= now then return nil end",
		paste: "if not deadline or deadline <= now then deaf[id] = true return nil end",
	},
	{
		name: "a claim has ended: its client's other places are passed over", script: lua.FairAcquire, args: fairTry,
		before: waiting("d:h2@14000", "d:h3@14000", "e:h1@15000") +
			"; ZADD ENDS -8200000000000000 d:h9; ZADD ENDS ENDED d:h1",
		reply: "0 ttl:1000 clock '' e:h1", hash: "e:h1=1", lease: 1000, token: "clock", keep: 3600000,
		fair: fair{queue: "d:h2@14000 d:h3@14000", life: longLife, listen: "d e", told: "e:h1/1000"},
		cut:  " or not since[id] or", paste: " or true or",
	},
	{
		name: "a claim has ended: who was heard of since counts", script: lua.FairAcquire, args: fairTry,
		before: waiting("d:h2@15000", "e:h1@15000") + "; ZADD ENDS ENDED d:h1",
		reply:  "0 ttl:1000 clock '' d:h2", hash: "d:h2=1", lease: 1000, token: "clock", keep: 3600000,
		fair: fair{queue: "e:h1@15000", life: longLife, listen: "d e", told: "d:h2/1000"},
		cut:  "deadline - silence >= since[id]", paste: "false",
	},
	{
		name: "all before the caller are out of reach", script: lua.FairAcquire, args: fairWait,
		before: waiting("d:h1@60000"),
		reply:  "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		fair: fair{queue: "d:h1@60000", life: longLife},
		cut:  "call('HEXISTS', name, owner) == 1 then -- all", paste: "call('HEXISTS', name, owner) == 2 then -- all",
	},
	{
		name: "all before the caller are out of reach, for the whole lease", script: lua.FairAcquire, args: fairWait,
		before: waiting("d:h1@60000", "c:h1@60000"),
		reply:  "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		fair: fair{queue: "d:h1@60000", life: longLife, listen: "c", told: "c:h1/1000"},
		cut:  "    call('PEXPIRE', name, lease)\n    return", paste: "    return",
	},
	{
		name: "Redisson's first", script: lua.FairAcquire, args: fairTry,
		before: waiting("r:7@310000", "e:h1@325000.5"),
		reply:  "0 ttl:2000 clock '' r:7", hash: "r:7=0", lease: 2000, token: "clock", keep: 3600000,
		fair: fair{queue: "e:h1+15000.5", life: longLife, listen: "r:7 r e", told: "r:7:0"},
		cut:  "id and '1' or '0'", paste: "'1'",
	},
	{
		name: "Redisson's first before it has subscribed", script: lua.FairAcquire,
		args:   "c:h1 30000 3600000 0 0 0 PUBLISH",
		before: waiting("r:7@310000"), reply: "0 ttl:2000 clock '' r:7", hash: "r:7=0", lease: 2000, token: "clock",
		keep: 3600000,
		cut:  "math.max(claim, 2000)", paste: "claim",
	},
	{
		name: "Redisson's behind one that is passed over", script: lua.FairAcquire, args: fairTry,
		before: waiting("d:h1@60000", "r:7@360000"),
		reply:  "0 ttl:2000 clock '' r:7", hash: "r:7=0", lease: 2000, token: "clock", keep: 3600000,
		fair: fair{queue: "d:h1@60000", life: longLife, listen: "r:7", told: "r:7:0"},
		cut:  "if i == 1 then call('LPOP', queue) else", paste: "if true then call('LPOP', queue) else",
	},
	{
		name: "free, with a token that is no number", script: lua.FairAcquire, args: fairTry,
		before: "SET TOKEN text PX 20000" + waiting("d:h1@60000"), reply: "!HOLDFAST", same: true,
		fair: fair{listen: "d"},
		cut:  "local n = not string.find(last, '%D') and tonumber(last)", paste: "local n = 0",
	},
}
