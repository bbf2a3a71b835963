package integration_test

import "github.com/holdfast-go/holdfast/lua"

// What the rows of the fair lock begin with. x is another client of the library, r is Redisson's.
const (
	heldByX        = "HSET LOCK x:h1 1; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000"
	heldByC        = "HSET LOCK c:h1 1; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000"
	heldByRedisson = "HSET LOCK r:9 1; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000"
	notAQueue      = "; SET QUEUE text PX 20000"
	notDeadlines   = "; SET ENDS text PX 20000"
	notAToken      = "; RPUSH TOKEN x; PEXPIRE TOKEN 20000"
)

// ARGV: owner, lease, time to live of the token's key, again, how long a place counts, claim,
// command to announce, until when.
const (
	fairTry       = "c:h1 30000 3600000 0 0 1000 PUBLISH"
	fairTryAgain  = "c:h1 30000 3600000 1 0 1000 PUBLISH"
	fairWait      = "c:h1 30000 3600000 0 15000 1000 PUBLISH"
	fairWaitAgain = "c:h1 30000 3600000 1 15000 1000 PUBLISH"
)

// A lock that is free, without anybody who could be handed it.
var fairAcquireRows = []row{
	{
		name: "free, in time", script: lua.FairAcquire, args: fairTry + " 9000000000000000",
		reply: "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "limit < clock)", paste: "limit > clock)",
	},
	{
		name: "free, in time by more digits", script: lua.FairAcquire, args: fairTry + " 10000000000000000",
		reply: "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "#limit == #clock and ", paste: "",
	},
	{
		name: "free, too late", script: lua.FairAcquire, args: fairTry + " 1000000000000000",
		reply: "-2 clock", same: true, cut: "then return {-2, clock} end", paste: "then end",
	},
	{
		name: "too late for a place", script: lua.FairAcquire, args: fairWait + " 1000000000000000", before: heldByX,
		reply: "-2 clock", same: true, cut: "then return {-2, clock} end", paste: "then end",
	},
	{
		name: "the server's clock is not known", script: lua.FairAcquire, args: fairWait + " 0", before: heldByX,
		reply: "-2 clock", same: true, cut: "then return {-2, clock} end", paste: "then end",
	},
	{
		name: "too late, by fewer digits", script: lua.FairAcquire, args: fairTry + " 999999999999999",
		reply: "-2 clock", same: true, cut: "#limit < #clock or ", paste: "",
	},
	{
		name: "free, try", script: lua.FairAcquire, args: fairTry,
		reply: "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "redis.pcall('PEXPIRE', name, lease)", paste: "1",
	},
	{
		name: "free, wait: no place is left behind", script: lua.FairAcquire, args: fairWait,
		reply: "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "return hold(owner, '1', lease) or", paste: "enqueue(owner, place)\n  return hold(owner, '1', lease) or",
	},
	{
		name: "free, a repeated call whose first attempt did not run", script: lua.FairAcquire, args: fairTryAgain,
		reply: "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		cut:   "  call('SET', tokens, token, 'PX', keep)\n  return hold",
		paste: "  call('SET', tokens, token)\n  return hold",
	},
	{
		name: "free again after a lease has ended", script: lua.FairAcquire, args: fairTry,
		before: "HSET LOCK b 1; PEXPIRE LOCK 0; SET TOKEN 5000 PX 20000",
		reply:  "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "return hold(owner, '1', lease) or", paste: "return hold(owner, '2', lease) or",
	},
	{
		name: "clock ahead of the token", script: lua.FairAcquire, args: fairTry,
		before: "SET TOKEN 1000000000000000 PX 20000",
		reply:  "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "call('GET', tokens), micros()\n", paste: "call('GET', tokens), '1000000000000000'\n",
	},
	{
		name: "token ahead of the clock", script: lua.FairAcquire, args: fairTry,
		before: "SET TOKEN 9000000000000000 PX 20000",
		reply:  "1 9000000000000001 9000000000000001 clock", hash: "c:h1=1", lease: 30000, token: "9000000000000001",
		keep: 3600000,
		cut:  "math.max(n + 1,", paste: "math.max(n,",
	},
	{
		name: "token shorter than the clock's, and greater as text", script: lua.FairAcquire, args: fairTry,
		before: "SET TOKEN 9 PX 20000",
		reply:  "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "math.max(n + 1, tonumber(token))", paste: "n + 1",
	},
	{
		name: "token longer than the clock's, and smaller as text", script: lua.FairAcquire, args: fairTry,
		before: "SET TOKEN 10000000000000000 PX 20000", reply: "!HOLDFAST", same: true,
		cut: "#last ~= #token or last", paste: "last",
	},
	{
		name: "token that has no next one", script: lua.FairAcquire, args: fairTry,
		before: "SET TOKEN 9007199254740991 PX 20000", reply: "!HOLDFAST", same: true,
		cut: "n >= 9007199254740991", paste: "n > 9007199254740991",
	},
	{
		name: "token that is no number", script: lua.FairAcquire, args: fairTry,
		before: "SET TOKEN text PX 20000", reply: "!HOLDFAST", same: true,
		cut: "if not n or", paste: "if not n then n = 0 end\n    if",
	},
	{
		name: "token that is text of a token's length", script: lua.FairAcquire, args: fairTry,
		before: "SET TOKEN 000000000000text PX 20000", reply: "!HOLDFAST", same: true,
		cut: " or string.find(last, '%D')) then", paste: ") then",
	},
	{
		name: "token of another type", script: lua.FairAcquire, args: fairTry,
		before: notAToken, reply: "!WRONGTYPE", same: true,
		cut: "call('GET', tokens), micros()\n", paste: "false, micros()\n",
	},
	{
		name: "key of another type", script: lua.FairAcquire, args: fairTry,
		before: notALock, reply: "!WRONGTYPE", same: true,
		cut: "local fields = call('HLEN', name)", paste: "call('DEL', name)\nlocal fields = 0",
	},
	{
		name: "queue of another type", script: lua.FairAcquire, args: fairTry,
		before: notAQueue, reply: "!WRONGTYPE", same: true,
		cut: "local first = call('LINDEX', queue, 0)", paste: "local first = false",
	},
	{
		name: "deadlines of another type", script: lua.FairAcquire, args: fairTry,
		before: "RPUSH QUEUE d:h1; PEXPIRE QUEUE 20000" + notDeadlines, reply: "!WRONGTYPE", same: true,
		cut: "local deadline = tonumber(call('ZSCORE', deadlines, owner) or nil)", paste: "local deadline = 0",
	},
	{
		name: "dead head", script: lua.FairAcquire, args: fairTry, before: waiting("d:h1@0"),
		reply: "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "(ends(some[n + 1]) or 0) <= now do", paste: "not ends(some[n + 1]) do",
	},
	{
		name: "head without a deadline", script: lua.FairAcquire, args: fairTry, before: "RPUSH QUEUE d:h1",
		reply: "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "(ends(some[n + 1]) or 0) <= now do", paste: "(ends(some[n + 1]) or now + 1) <= now do",
	},
	{
		name: "two dead heads before one that counts", script: lua.FairAcquire, args: fairTry,
		before: waiting("d:h1@0", "r:7@-5", "e:h1@60000"),
		reply:  "0 ttl:1000 clock '' e:h1", hash: "e:h1=1", lease: 1000, token: "clock", keep: 3600000,
		fair: fair{listen: "e", told: "e:h1/1000"},
		cut:  "  call('ZREM', deadlines, unpack(some, 1, n))\n", paste: "",
	},
	{
		name: "the owner is the head, wait", script: lua.FairAcquire, args: fairWait,
		before: waiting("c:h1@9000", "d:h1@60000"),
		reply:  "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		fair: fair{queue: "d:h1@60000", life: longLife, listen: "c d"},
		cut:  "if placed then drop(owner) end", paste: "",
	},
	{
		name: "the owner is the head, try", script: lua.FairAcquire, args: fairTry, before: waiting("c:h1@9000"),
		reply: "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "if placed then drop(owner) end", paste: "",
	},
}

// The lock is the owner's own already.
var fairOwnRows = []row{
	{
		name: "handed over, and the word of it lost", script: lua.FairAcquire, args: fairWait,
		before: "HSET LOCK c:h1 1; PEXPIRE LOCK 900; SET TOKEN 5000 PX 20000" + waiting("d:h1@60000"),
		reply:  "1 5000 5000 clock", hash: "c:h1=1", lease: 30000, token: "5000", keep: 20000,
		fair: fair{queue: "d:h1@60000", life: longLife, listen: "d"},
		cut:  "(ARGV[4] == '1' or place > 0)", paste: "ARGV[4] == '1'",
	},
	{
		name: "handed over by Redisson's rules", script: lua.FairAcquire, args: fairWait,
		before: "HSET LOCK c:h1 1", reply: "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "if call('PTTL', name) < tonumber(lease) then call('PEXPIRE', name, lease) end", paste: "",
	},
	{
		name: "repeated call", script: lua.FairAcquire, args: fairTryAgain, before: heldByC,
		reply: "1 5000 5000 clock", hash: "c:h1=1", lease: 30000, token: "5000", keep: 20000,
		cut: "ARGV[4] == '1' or ", paste: "",
	},
	{
		name: "repeated call with a place", script: lua.FairAcquire, args: fairWaitAgain, before: heldByC +
			waiting("c:h1@9000", "d:h1@60000"),
		reply: "1 5000 5000 clock", hash: "c:h1=1", lease: 30000, token: "5000", keep: 20000,
		fair: fair{queue: "d:h1@60000", life: longLife},
		cut:  "  drop(owner)\n  return granted(token)", paste: "  return granted(token)",
	},
	{
		name: "re-entered since, repeated call that comes late", script: lua.FairAcquire, args: fairTryAgain,
		before: "HSET LOCK c:h1 3; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000",
		reply:  "1 5000 5000 clock", hash: "c:h1=3", lease: 30000, token: "5000", keep: 20000,
		cut:   "  drop(owner)\n  return granted(token)",
		paste: "  call('HSET', name, owner, '1')\n  return granted(token)",
	},
	{
		name: "more left, repeated call", script: lua.FairAcquire, args: "c:h1 1000 3600000 1 15000 1000 PUBLISH",
		before: heldByC,
		reply:  "1 5000 5000 clock", hash: "c:h1=1", lease: 10000, token: "5000", keep: 20000,
		cut: "if call('PTTL', name) < tonumber(lease) then", paste: "if true then",
	},
	{
		name: "without a token, repeated call", script: lua.FairAcquire, args: fairTryAgain,
		before: "HSET LOCK c:h1 1; PEXPIRE LOCK 10000",
		reply:  "1 clock", hash: "c:h1=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "    call('SET', tokens, token, 'PX', keep)\n  end\n  if call('PTTL'", paste: "  end\n  if call('PTTL'",
	},
	{
		name: "by an earlier call", script: lua.FairAcquire, args: fairTry, before: heldByC,
		reply: "0 ttl:10000 clock '' c:h1", same: true,
		cut: "(ARGV[4] == '1' or place > 0)", paste: "true",
	},
	{
		name: "another's, repeated call", script: lua.FairAcquire, args: fairTryAgain, before: heldByX,
		reply: "0 ttl:10000 clock '' x:h1", same: true,
		cut: " and call('HEXISTS', name, owner) == 1 then\n  local token", paste: " then\n  local token",
	},
}
