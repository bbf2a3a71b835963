package integration_test

import "github.com/holdfast-go/holdfast/lua"

// A client's look at a queue in which Redisson waits too.
var fairMixedRows = []row{
	{
		name: "in front of a Redisson holder", script: lua.FairPoll, args: fairPoll, before: heldByRedisson +
			waiting("c:h1@60000", "r:7@360000"),
		reply: "1 ttl:10000 clock r:9 c:h1 '' ''", same: true,
		cut: "if not called or client(called) ~= id or holder == '' or client(holder) then", paste: "if true then",
	},
	{
		name: "in front, when the head has ended", script: lua.FairPoll, args: fairPoll, before: heldByRedisson +
			waiting("r:7@0", "c:h1@60000"),
		reply: "1 ttl:10000 clock r:9 c:h1 '' ''", hash: "r:9=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "c:h1@60000", life: longLife},
		cut:  "local called = head()", paste: "local called = call('LINDEX', queue, 0)",
	},
	{
		name: "another's in front of a Redisson holder", script: lua.FairPoll, args: fairPoll, before: heldByRedisson +
			waiting("d:h1@60000", "c:h1@60000"),
		reply: "1 ttl:10000 clock r:9 '' '' ''", same: true,
		cut: "client(called) ~= id or", paste: "",
	},
	{
		name: "in front of a holder of the library", script: lua.FairPoll, args: fairPoll, before: heldByX +
			waiting("c:h1@60000"),
		reply: "1 ttl:10000 clock x:h1 '' '' ''", same: true,
		cut: "or holder == '' or client(holder) then", paste: "then",
	},
	{
		name: "behind Redisson's", script: lua.FairPoll, args: fairPoll + "c:h1", before: heldByX +
			waiting("r:7@310000", "c:h1@5000.5"),
		reply: "1 ttl:10000 clock x:h1 '' 1 ''", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "r:7@310000 c:h1@325000.5", life: longLife, listen: "r:7 c"},
		cut:  "return math.min(math.max(foreignWait", paste: "return 0 * math.min(math.max(foreignWait",
	},
	{
		name: "behind Redisson's that has waited for long", script: lua.FairPoll, args: fairPoll + "c:h1",
		before: heldByX + waiting("r:7@30000", "c:h1@45000.5"),
		reply:  "1 ttl:10000 clock x:h1 '' '' ''", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "r:7@30000 c:h1+315000.5", life: longLife},
		cut:  "local foreignWait = 300000", paste: "local foreignWait = 0",
	},
	{
		name: "behind two of Redisson's", script: lua.FairPoll, args: fairPoll + "c:h1",
		before: heldByX + waiting("r:7@310000", "r:8@610000", "c:h1@5000.5"),
		reply:  "1 ttl:10000 clock x:h1 '' '' ''", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "r:7@310000 r:8@610000 c:h1@625000.5", life: longLife},
		cut:  "    others = true\n", paste: "    others, needed = true, now + place\n",
	},
	{
		name: "behind one of Redisson's that waits for longer", script: lua.FairPoll, args: fairPoll + "c:h1",
		before: heldByX + waiting("r:7@310000", "r:8@1310000", "c:h1@5000.5"),
		reply:  "1 ttl:10000 clock x:h1 '' '' ''", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "r:7@310000 r:8@1310000 c:h1@1325000.5", life: longLife},
		cut:  "math.min(math.max(foreignWait, deadline - before), longestWait)", paste: "foreignWait",
	},
	{
		name: "before and behind Redisson's", script: lua.FairPoll, args: fairPoll + "c:h1 c:h2",
		before: heldByX + waiting("c:h1@5000", "r:7@305000", "c:h2@15000.5"),
		reply:  "1 ttl:10000 clock x:h1 '' '' ''", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair:  fair{queue: "c:h1+15000 r:7@305000 c:h2+315000.5", life: longLife},
		cut:   "visit(owner, deadline, math.floor(needed) + (others and 0.5 or 0))",
		paste: "if not others then visit(owner, deadline, needed) end",
	},
	{
		name: "a deadline that is later than it need be", script: lua.FairPoll, args: fairPoll + "c:h1",
		before: heldByX + waiting("r:7@310000", "c:h1@700000.5"),
		reply:  "1 ttl:10000 clock x:h1 '' '' ''", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "r:7@310000 c:h1@325000.5", life: longLife},
		cut:  " or room and deadline > needed", paste: "",
	},
	{
		name: "Redisson's have gone", script: lua.FairPoll, args: fairPoll + "c:h1", before: heldByX +
			waiting("c:h1@60000.5"),
		reply: "1 ttl:10000 clock x:h1 '' '' ''", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "c:h1+15000", life: longLife},
		cut:  " or room and deadline > needed", paste: "",
	},
	{
		name: "no owners, nothing put off", script: lua.FairPoll, args: fairPoll, before: heldByX +
			waiting("r:7@310000", "c:h1@5000.5"),
		reply: "1 ttl:10000 clock x:h1 '' '' ''", same: true,
		cut: "asked[owner] and deadline < needed or", paste: "deadline < needed or",
	},
	{
		name: "another client's place is its own to put off", script: lua.FairPoll, args: fairPoll + "c:h1",
		before: heldByX + waiting("d:h1@5000", "r:7@305000", "d:h2@315000.5", "c:h1@330000.5"),
		reply:  "1 ttl:10000 clock x:h1 '' '' ''", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "d:h1@5000 r:7@305000 d:h2@315000.5 c:h1+315000.5", life: longLife},
		cut:  "asked[owner] and deadline < needed or", paste: "deadline < needed or",
	},
	{
		name: "free, handed to Redisson's", script: lua.FairPoll, args: fairPoll,
		before: waiting("r:7@310000", "c:h1@325000.5"),
		reply:  "1 ttl:2000 clock r:7 c:h1 1 ''", hash: "r:7=0", lease: 2000, token: "clock", keep: 3600000,
		fair: fair{queue: "c:h1+15000.5", life: longLife, listen: "r:7 c", told: "r:7:0"},
		cut:  "id and '1' or '0'", paste: "'1'",
	},
	{
		// Who stood before r:7 has left, and its time is in the deadlines of Redisson's still: 315
		// s are taken off for a wait of 300 s.
		name: "free, handed to one of Redisson's with more time left than it waits", script: lua.FairPoll,
		args:   fairPoll,
		before: waiting("r:7@315000", "r:8@615000", "c:h1@615000.5"),
		reply:  "1 ttl:2000 clock r:7 '' 1 ''", hash: "r:7=0", lease: 2000, token: "clock", keep: 3600000,
		fair: fair{queue: "r:8+300000 c:h1+315000.5", life: longLife, listen: "r:7 c", told: "r:7:0"},
		cut:  "math.floor(needed) + deadline % 1)", paste: "now + silence + deadline % 1)",
	},
	{
		// Equally many on both sides, and not the same.
		name: "one without a deadline, one without a place", script: lua.FairPoll, args: fairPoll + "c:h1",
		before: heldByX + waiting("r:7@310000") + "; RPUSH QUEUE r:8; ZADD ENDS @310000 r:6" +
			"; RPUSH QUEUE c:h1; ZADD ENDS @800000.5 c:h1",
		reply: "1 ttl:10000 clock x:h1 '' '' ''", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair:  fair{broken: true, life: longLife},
		cut:   "local first = call('LINDEX', queue, 0)\nif first and",
		paste: "call('DEL', name)\nlocal first = call('LINDEX', queue, 0)\nif first and",
	},
}
