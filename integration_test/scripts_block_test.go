package integration_test

import "github.com/holdfast-go/holdfast/lua"

// The rows of acquire.lua for a block of tokens.
var blockRows = []row{
	{
		name: "free", script: lua.Acquire, args: "a 30000 3600000 0 16",
		reply: "1 clock last:16", hash: "a=1", lease: 30000, token: "last", keep: 3600000,
		cut: "tonumber(token) + block - 1", paste: "tonumber(token) + block",
	},
	{
		name: "free, the key has the last of the block", script: lua.Acquire, args: "a 30000 3600000 0 16",
		before: "SET TOKEN 1000000000000000 PX 20000",
		reply:  "1 clock last:16", hash: "a=1", lease: 30000, token: "last", keep: 3600000,
		cut: "call('SET', tokens, last,", paste: "call('SET', tokens, token,",
	},
	{
		name: "free, a block of one", script: lua.Acquire, args: "a 30000 3600000 0 1",
		reply: "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "block > 1 and last or nil", paste: "last",
	},
	{
		name: "the clock is behind the last token: one", script: lua.Acquire, args: "a 30000 3600000 0 16",
		before: "SET TOKEN 9000000000000000 PX 20000",
		reply:  "1 9000000000000001 9000000000000001 clock", hash: "a=1", lease: 30000, token: "9000000000000001",
		keep: 3600000,
		cut:  "if n >= tonumber(token) then block = 1 end", paste: "",
	},
	{
		name: "the clock is ahead of a token that is greater as text", script: lua.Acquire,
		args:   "a 30000 3600000 0 16",
		before: "SET TOKEN 9 PX 20000",
		reply:  "1 clock last:16", hash: "a=1", lease: 30000, token: "last", keep: 3600000,
		cut: "if n >= tonumber(token) then block = 1 end", paste: "block = 1",
	},
	{
		name: "the owner's own, repeated call: the last of the first attempt's", script: lua.Acquire,
		args:   "a 30000 3600000 1 16",
		before: heldByA,
		reply:  "1 5000 5000 clock", hash: "a=1", lease: 30000, token: "5000", keep: 20000,
		cut: "    return {1, last, last, clock}\n", paste: "    return {1, last, last}\n",
	},
	{
		name: "the owner's own without a token, repeated call: a new block", script: lua.Acquire,
		args:   "a 30000 3600000 1 16",
		before: "HSET LOCK a 1; PEXPIRE LOCK 10000",
		reply:  "1 clock last:16", hash: "a=1", lease: 30000, token: "last", keep: 3600000,
		cut: "last = block > 1 and", paste: "last = false and",
	},
	{
		name: "another's: nothing is reserved", script: lua.Acquire, args: "a 30000 3600000 0 16",
		before: heldByB,
		reply:  "0 ttl:10000 b", same: true,
		cut: "    local hash =", paste: "    call('INCRBY', tokens, 16)\n    local hash =",
	},
	{
		name: "another's, repeated call", script: lua.Acquire, args: "a 30000 3600000 1 16",
		before: heldByB,
		reply:  "0 ttl:10000 b", same: true,
		cut: " or call('HEXISTS', name, owner) == 0", paste: "",
	},
}
