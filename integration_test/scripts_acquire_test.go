package integration_test

import "github.com/holdfast-go/holdfast/lua"

// What the rows begin with.
const (
	heldByA   = "HSET LOCK a 1; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000"
	heldThree = "HSET LOCK a 3; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000"
	heldByB   = "HSET LOCK b 1; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000"
	notALock  = "SET LOCK text PX 10000"
)

// ARGV: owner, lease, time to live of the token's key, again, how many tokens, until when. Rows
// with a block of those are in scripts_block_test.go.
var acquireRows = []row{
	{
		name: "free, in time", script: lua.Acquire, args: "a 30000 3600000 0 1 9000000000000000",
		reply: "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "limit < clock)", paste: "limit > clock)",
	},
	{
		name: "free, in time by more digits", script: lua.Acquire, args: "a 30000 3600000 0 1 10000000000000000",
		reply: "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "#limit == #clock and ", paste: "",
	},
	{
		name: "free, too late", script: lua.Acquire, args: "a 30000 3600000 0 1 1000000000000000",
		reply: "-2 clock", same: true, cut: "then return {-2, clock} end", paste: "then end",
	},
	{
		name: "free, the server's clock is not known", script: lua.Acquire, args: "a 30000 3600000 0 1 0",
		reply: "-2 clock", same: true, cut: "then return {-2, clock} end", paste: "then end",
	},
	{
		name: "too late, by fewer digits", script: lua.Acquire, args: "a 30000 3600000 0 1 999999999999999",
		reply: "-2 clock", same: true, cut: "#limit < #clock or ", paste: "",
	},
	{
		name: "the owner's own, repeated call that comes too late", script: lua.Acquire,
		args:   "a 30000 3600000 1 1 1000000000000000",
		before: heldByA,
		reply:  "-2 clock", same: true, cut: "then return {-2, clock} end", paste: "then end",
	},
	{
		name: "free", script: lua.Acquire, args: "a 30000 3600000 0",
		reply: "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "redis.pcall('PEXPIRE', name, lease)", paste: "1",
	},
	{
		name: "free, a repeated call whose first attempt did not run", script: lua.Acquire, args: "a 30000 3600000 1",
		reply: "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "call('SET', tokens, last, 'PX', ARGV[3])", paste: "call('SET', tokens, last)",
	},
	{
		name: "free again after a lease has ended", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "HSET LOCK b 1; PEXPIRE LOCK 0; SET TOKEN 5000 PX 20000",
		reply:  "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "call('HSET', name, owner, '1')", paste: "call('HSET', name, owner, '2')",
	},
	{
		name: "clock ahead of the token", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "SET TOKEN 1000000000000000 PX 20000",
		reply:  "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "local token, block = clock,", paste: "local token, block = '1000000000000000',",
	},
	{
		name: "token ahead of the clock", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "SET TOKEN 9000000000000000 PX 20000",
		reply:  "1 9000000000000001 9000000000000001 clock", hash: "a=1", lease: 30000, token: "9000000000000001",
		keep: 3600000,
		cut:  "math.max(n + 1,", paste: "math.max(n,",
	},
	{
		name: "token shorter than the clock's, and greater as text", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "SET TOKEN 9 PX 20000",
		reply:  "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "math.max(n + 1, tonumber(token))", paste: "n + 1",
	},
	{
		name: "token longer than the clock's, and smaller as text", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "SET TOKEN 10000000000000000 PX 20000",
		reply:  "!HOLDFAST", same: true,
		cut: "#last ~= #token or last", paste: "last",
	},
	{
		name: "greatest token", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "SET TOKEN 9007199254740990 PX 20000",
		reply:  "1 9007199254740991 9007199254740991 clock", hash: "a=1", lease: 30000, token: "9007199254740991",
		keep: 3600000,
		cut:  "string.format('%.0f', math", paste: "tostring(math",
	},
	{
		name: "token that has no next one", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "SET TOKEN 9007199254740991 PX 20000",
		reply:  "!HOLDFAST", same: true,
		cut: "n >= 9007199254740991", paste: "n > 9007199254740991",
	},
	{
		name: "token that is no number", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "SET TOKEN text PX 20000",
		reply:  "!HOLDFAST", same: true,
		cut: "if not n or", paste: "if not n then n = 0 end\nif",
	},
	{
		name: "negative token", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "SET TOKEN -1 PX 20000",
		reply:  "!HOLDFAST", same: true,
		cut: "local n = not string.find(last, '%D') and", paste: "local n =",
	},
	{
		name: "token without a time to live", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "SET TOKEN 9000000000000000",
		reply:  "1 9000000000000001 9000000000000001 clock", hash: "a=1", lease: 30000, token: "9000000000000001",
		keep: 3600000,
		cut:  "'PX', ARGV[3])", paste: "'KEEPTTL')",
	},
	{
		name: "token of another type", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "RPUSH TOKEN x; PEXPIRE TOKEN 20000",
		reply:  "!WRONGTYPE", same: true,
		cut: "else\n", paste: "else\n  call('HSET', name, owner, '1')\n",
	},
	{
		name: "key of another type", script: lua.Acquire, args: "a 30000 3600000 0",
		before: notALock,
		reply:  "!WRONGTYPE", same: true,
		cut: "local fields = call('HLEN', name)", paste: "call('DEL', name)\nlocal fields = 0",
	},
	{
		name: "another's", script: lua.Acquire, args: "a 30000 3600000 0",
		before: heldByB,
		reply:  "0 ttl:10000 b", same: true,
		cut: "    return {0, call('PTTL', name), hash[1]", paste: "    local _ = {0, call('PTTL', name), hash[1]",
	},
	{
		name: "another's, without a time to live", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "HSET LOCK b 1",
		reply:  "0 -1 b", same: true,
		cut: "return {0, call('PTTL', name), hash[1]", paste: "return {0, math.max(0, call('PTTL', name)), hash[1]",
	},
	{
		name: "four fields", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "HSET LOCK b 1 c 2 d 3 e 4",
		reply:  "0 -1 b c d e", same: true,
		cut: "hash[1], hash[3]", paste: "hash[1], hash[2]",
	},
	{
		name: "five fields", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "HSET LOCK b 1 c 2 d 3 e 4 f 5",
		reply:  "0 -1 5", same: true,
		cut: "and 'mode' or fields", paste: "and 'mode' or 4",
	},
	{
		name: "five fields of a lock of another kind", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "HSET LOCK b 1 c 2 mode 3 e 4 f 5",
		reply:  "0 -1 mode", same: true,
		cut: "call('HEXISTS', name, 'mode') == 1", paste: "false",
	},
	{
		name: "another's, repeated call", script: lua.Acquire, args: "a 30000 3600000 1",
		before: heldByB,
		reply:  "0 ttl:10000 b", same: true,
		cut: " or call('HEXISTS', name, owner) == 0", paste: "",
	},
	{
		name: "the owner's own, by an earlier call", script: lua.Acquire, args: "a 30000 3600000 0",
		before: heldByA,
		reply:  "0 ttl:10000 a", same: true,
		cut: "ARGV[4] ~= '1' or ", paste: "",
	},
	{
		name: "the owner's own, repeated call", script: lua.Acquire, args: "a 30000 3600000 1",
		before: heldByA,
		reply:  "1 5000 5000 clock", hash: "a=1", lease: 30000, token: "5000", keep: 20000,
		cut: "then call('PEXPIRE', name, lease) end", paste: "then end",
	},
	{
		name: "the owner's own, re-entered since, repeated call that comes late", script: lua.Acquire,
		args:   "a 30000 3600000 1",
		before: heldThree,
		reply:  "1 5000 5000 clock", hash: "a=3", lease: 30000, token: "5000", keep: 20000,
		cut:   "    return {1, last, last, clock}\n",
		paste: "    call('HSET', name, owner, '1')\n    return {1, last, last, clock}\n",
	},
	{
		name: "the owner's own without a time to live, repeated call", script: lua.Acquire, args: "a 30000 3600000 1",
		before: "HSET LOCK a 1; SET TOKEN 5000 PX 20000",
		reply:  "1 5000 5000 clock", hash: "a=1", lease: 30000, token: "5000", keep: 20000,
		cut: "then call('PEXPIRE', name, lease) end", paste: "then end",
	},
	{
		name: "the owner's own with more left, repeated call", script: lua.Acquire, args: "a 1000 3600000 1",
		before: heldByA,
		reply:  "1 5000 5000 clock", hash: "a=1", lease: 10000, token: "5000", keep: 20000,
		cut: "if call('PTTL', name) < tonumber(lease) then", paste: "if true then",
	},
	{
		name: "the owner's own without a token, repeated call", script: lua.Acquire, args: "a 30000 3600000 1",
		before: "HSET LOCK a 1; PEXPIRE LOCK 10000",
		reply:  "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "  if last then\n", paste: "  if true then\n    last = last or '0'\n",
	},
	{
		name: "token that is not a number by name", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "SET TOKEN nan PX 20000",
		reply:  "!HOLDFAST", same: true,
		cut: "local n = not string.find(last, '%D') and", paste: "local n =",
	},
	{
		name: "token that is text of a token's length", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "SET TOKEN 000000000000text PX 20000",
		reply:  "!HOLDFAST", same: true,
		cut: " or string.find(last, '%D')) then", paste: ") then",
	},
}
