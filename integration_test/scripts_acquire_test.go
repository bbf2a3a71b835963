package integration_test

import "github.com/holdfast-go/holdfast/lua"

// What the rows begin with.
const (
	heldByA   = "HSET LOCK a 1; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000"
	heldThree = "HSET LOCK a 3; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000"
	heldByB   = "HSET LOCK b 1; PEXPIRE LOCK 10000; SET TOKEN 5000 PX 20000"
	notALock  = "SET LOCK text PX 10000"
)

// ARGV: owner, lease, time to live of the token's key, again, how many tokens. Rows with a block of those are in
// scripts_block_test.go.
var acquireRows = []row{
	{
		name: "free", script: lua.Acquire, args: "a 30000 3600000 0",
		reply: "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "redis.pcall('PEXPIRE', name, ARGV[2])", paste: "1",
	},
	{
		name: "free, a repeated call whose first attempt did not run", script: lua.Acquire, args: "a 30000 3600000 1",
		reply: "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "call('SET', KEYS[2], last, 'PX', ARGV[3])", paste: "call('SET', KEYS[2], last)",
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
		cut: "local token, block = time[1] .. micros,", paste: "local token, block = '1000000000000000',",
	},
	{
		name: "token ahead of the clock", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "SET TOKEN 9000000000000000 PX 20000",
		reply:  "1 9000000000000001", hash: "a=1", lease: 30000, token: "9000000000000001", keep: 3600000,
		cut: "math.max(n + 1,", paste: "math.max(n,",
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
		reply:  "1 9007199254740991", hash: "a=1", lease: 30000, token: "9007199254740991", keep: 3600000,
		cut: "string.format('%.0f', math", paste: "tostring(math",
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
		reply:  "1 9000000000000001", hash: "a=1", lease: 30000, token: "9000000000000001", keep: 3600000,
		cut: "'PX', ARGV[3])", paste: "'KEEPTTL')",
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
		cut: "if call('HLEN', name) > 0 then", paste: "call('DEL', name)\nif false then",
	},
	{
		name: "another's", script: lua.Acquire, args: "a 30000 3600000 0",
		before: heldByB,
		reply:  "0 ttl:10000", same: true,
		cut: "return {0, call('PTTL', name)}\n", paste: "",
	},
	{
		name: "another's, without a time to live", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "HSET LOCK b 1",
		reply:  "0 -1", same: true,
		cut: "return {0, call('PTTL', name)}\n", paste: "if call('PTTL', name) >= 0 then return {0, 1} end\n",
	},
	{
		name: "another's, repeated call", script: lua.Acquire, args: "a 30000 3600000 1",
		before: heldByB,
		reply:  "0 ttl:10000", same: true,
		cut: " or call('HEXISTS', name, owner) == 0", paste: "",
	},
	{
		name: "the owner's own, by an earlier call", script: lua.Acquire, args: "a 30000 3600000 0",
		before: heldByA,
		reply:  "0 ttl:10000", same: true,
		cut: "ARGV[4] ~= '1' or ", paste: "",
	},
	{
		name: "the owner's own, repeated call", script: lua.Acquire, args: "a 30000 3600000 1",
		before: heldByA,
		reply:  "1 5000", hash: "a=1", lease: 30000, token: "5000", keep: 20000,
		cut: "then call('PEXPIRE', name, ARGV[2]) end", paste: "then end",
	},
	{
		name: "the owner's own, re-entered since, repeated call that comes late", script: lua.Acquire, args: "a 30000 3600000 1",
		before: heldThree,
		reply:  "1 5000", hash: "a=3", lease: 30000, token: "5000", keep: 20000,
		cut: "    return {1, last}\n", paste: "    call('HSET', name, owner, '1')\n    return {1, last}\n",
	},
	{
		name: "the owner's own without a time to live, repeated call", script: lua.Acquire, args: "a 30000 3600000 1",
		before: "HSET LOCK a 1; SET TOKEN 5000 PX 20000",
		reply:  "1 5000", hash: "a=1", lease: 30000, token: "5000", keep: 20000,
		cut: "then call('PEXPIRE', name, ARGV[2]) end", paste: "then end",
	},
	{
		name: "the owner's own with more left, repeated call", script: lua.Acquire, args: "a 1000 3600000 1",
		before: heldByA,
		reply:  "1 5000", hash: "a=1", lease: 10000, token: "5000", keep: 20000,
		cut: "if call('PTTL', name) < tonumber(ARGV[2]) then", paste: "if true then",
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
