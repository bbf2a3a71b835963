package integration_test

import "github.com/holdfast-go/holdfast/lua"

// ARGV: how long a place counts, until when, claim, command to announce, time to live of the token's
// key, owners.
const (
	fairJoin     = "15000 9000000000000000" + fairJoiners
	fairJoinLate = "15000 1000000000000000" + fairJoiners
	fairJoiners  = " 1000 PUBLISH 3600000 c:h1 c:h2 c:h3"
	fairJoined   = "c:h1+15000 c:h2+15000 c:h3+15000"
)

var fairJoinRows = []row{
	{
		name: "places taken", script: lua.FairJoin, args: fairJoin, before: heldByX,
		reply: "0 ttl:10000 clock '' x:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair:  fair{queue: fairJoined, life: 3615000},
		cut:   "if call('RPUSH', queue, unpack(owners)) == #owners then limit(tonumber(deadline)) end",
		paste: "call('RPUSH', queue, unpack(owners))",
	},
	{
		name: "behind another", script: lua.FairJoin, args: fairJoin, before: heldByX + waiting("d:h1@9000"),
		reply: "0 ttl:10000 clock '' x:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "d:h1@9000 " + fairJoined, life: longLife, listen: "d"},
		cut:  "call('RPUSH', queue, unpack(owners))", paste: "call('LPUSH', queue, unpack(owners))",
	},
	{
		name: "one has a place", script: lua.FairJoin, args: fairJoin, before: heldByX + waiting("c:h2@9000", "d:h1@9000"),
		reply: "0 ttl:10000 clock '' x:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "c:h2@9000 d:h1@9000 c:h1+15000 c:h3+15000", life: longLife},
		cut:  "fresh = fresh and not call('ZSCORE', deadlines, ARGV[i])", paste: "",
	},
	{
		name: "one let a claim lapse", script: lua.FairJoin, args: fairJoin,
		before: heldByX + waiting("d:h1@9000") + "; ZADD ENDS ENDED c:h2",
		reply:  "0 ttl:10000 clock '' x:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "d:h1@9000 " + fairJoined, life: longLife},
		cut:  "    call('ZADD', deadlines, deadline, owner) -- it was handed the lock", paste: "    -- it",
	},
	{
		name: "too late", script: lua.FairJoin, args: fairJoinLate, before: heldByX, reply: "-2 clock", same: true,
		cut: "  local limit = ARGV[2]\n", paste: "  local limit = nil\n",
	},
	{
		name: "the server's clock is not known", script: lua.FairJoin, args: "15000 0" + fairJoiners, before: heldByX,
		reply: "-2 clock", same: true,
		cut: "  local limit = ARGV[2]\n", paste: "  local limit = nil\n",
	},
	{
		name: "one of them has the lock", script: lua.FairJoin, args: fairJoin, before: heldByC, reply: "1", same: true,
		cut: "  if ARGV[i] == hash[1] then return {1} end\n", paste: "",
	},
	{
		name: "five fields", script: lua.FairJoin, args: fairJoin, before: "HSET LOCK x:h1 1 c 2 d 3 e 4 f 5",
		reply: "1", same: true,
		cut: "if fields > 4 then return {1} end\n", paste: "",
	},
	{
		name: "four fields", script: lua.FairJoin, args: fairJoin,
		before: "HSET LOCK x:h1 1 c 2 d 3 e 4; PEXPIRE LOCK 10000",
		reply:  "0 ttl:10000 clock '' x:h1 c d e", hash: "c=2 d=3 e=4 x:h1=1", lease: 10000,
		fair: fair{queue: fairJoined, life: 3615000},
		cut:  "hash[1], hash[3]", paste: "hash[1], hash[2]",
	},
	{
		name: "free: a run", script: lua.FairJoin, args: fairJoin,
		reply: "0 ttl:1000 clock '' c:h1", hash: "c:h1=1", lease: 1000, token: "run", keep: 3600000,
		fair: fair{queue: "c:h2+15000 c:h3+15000", life: 3615000, listen: "c", told: "c:h1/1000/h2/h3"},
		cut:  "  hash, clock = call('HGETALL', name)", paste: "  clock = clock",
	},
	{
		name: "free, another waits", script: lua.FairJoin, args: fairJoin, before: waiting("d:h1@60000"),
		reply: "0 ttl:1000 clock '' d:h1", hash: "d:h1=1", lease: 1000, token: "clock", keep: 3600000,
		fair: fair{queue: fairJoined, life: longLife, listen: "c d", told: "d:h1/1000"},
		cut:  "call('RPUSH', queue, unpack(owners))", paste: "call('LPUSH', queue, unpack(owners))",
	},
	{
		name: "free, another waits out of reach, and so they seem", script: lua.FairJoin, args: fairJoin,
		before: waiting("d:h1@60000"),
		reply:  "0 ttl:1000 clock '' c:h1", hash: "c:h1=1", lease: 1000, token: "run", keep: 3600000,
		fair: fair{queue: "d:h1@60000 c:h2+15000 c:h3+15000", life: longLife},
		cut:  ", client(owners[1]))", paste: ")",
	},
	{
		name: "free, and their places have ended", script: lua.FairJoin, args: "15000 9000000000000000 1000 PUBLISH 3600000 c:h1",
		before: waiting("d:h1@60000", "c:h1@0"), reply: "1", same: true,
		cut: "  if not hash[1] then return {1} end", paste: "  if not hash[1] then hash[1] = '' end",
	},
	{
		name: "behind Redisson's", script: lua.FairJoin, args: fairJoin, before: heldByX + waiting("r:7@310000"),
		reply: "0 ttl:10000 clock 1 x:h1", hash: "x:h1=1", lease: 10000, token: "5000", keep: 20000,
		fair: fair{queue: "r:7@310000 c:h1@325000.5 c:h2@325000.5 c:h3@325000.5", life: longLife, listen: "r:7"},
		cut:  "if fresh and not mixed() then", paste: "if fresh then",
	},
	{
		name: "Redisson's holds it", script: lua.FairJoin, args: fairJoin,
		before: "HSET LOCK r:7 1; PEXPIRE LOCK 10000",
		reply:  "0 ttl:10000 clock 1 r:7", hash: "r:7=1", lease: 10000, fair: fair{queue: fairJoined, life: 3615000},
		cut: "foreign = foreign or not client(hash[1])\n", paste: "",
	},
	{
		name: "free, with a token that is no number", script: lua.FairJoin, args: fairJoin,
		before: "SET TOKEN text PX 20000", reply: "!HOLDFAST", same: true,
		cut: "  local refused = nextToken()\n  if refused then return refused end\n", paste: "",
	},
	{
		name: "key of another type", script: lua.FairJoin, args: fairJoin, before: notALock, reply: "!WRONGTYPE", same: true,
		cut: "local fields = call('HLEN', name)\nif", paste: "call('DEL', name)\nlocal fields = 0\nif",
	},
	{
		name: "queue of another type", script: lua.FairJoin, args: fairJoin, before: heldByX + notAQueue,
		reply: "!WRONGTYPE", same: true,
		cut: "if fresh and not mixed() then", paste: "if fresh then",
	},
	{
		name: "deadlines of another type", script: lua.FairJoin, args: fairJoin, before: heldByX + notDeadlines,
		reply: "!WRONGTYPE", same: true,
		cut: "fresh = fresh and not call('ZSCORE', deadlines, ARGV[i])", paste: "call('DEL', deadlines)",
	},
}
