package integration_test

import "github.com/holdfast-go/holdfast/lua"

// hurried is another's lock, and somebody needs a head start.
const hurried = heldByB + "; SET CHANNEL 30 PX 5000"

// ARGV: those of acquireRows, and the head start if it is refused, and the longest that ends if it
// is granted.
var startRows = []row{
	{
		name: "another's: a head start is needed", script: lua.HeadStart,
		args: "a 30000 3600000 0 1 9000000000000000 60 60", before: heldByB,
		reply: "0 ttl:10000 b", hash: "b=1", lease: 10000, token: "5000", keep: 20000, start: "60", until: 11000,
		cut: "math.max(call('PTTL', name), 0) + 1000", paste: "100000",
	},
	{
		name: "another's, another needs less", script: lua.HeadStart,
		args: "a 30000 3600000 0 1 9000000000000000 60 60", before: hurried,
		reply: "0 ttl:10000 b", hash: "b=1", lease: 10000, token: "5000", keep: 20000, start: "60", until: 11000,
		cut: "(tonumber(start) or 0) <= tonumber(ARGV[7])", paste: "false",
	},
	{
		name: "another's, another needs more", script: lua.HeadStart,
		args: "a 30000 3600000 0 1 9000000000000000 20 20", before: hurried,
		reply: "0 ttl:10000 b", hash: "b=1", lease: 10000, token: "5000", keep: 20000, start: "30", until: 5000,
		cut: "(tonumber(start) or 0) <= tonumber(ARGV[7])", paste: "true",
	},
	{
		name: "another's, who is near needs none", script: lua.HeadStart,
		args: "a 30000 3600000 0 1 9000000000000000 0 60", before: heldByB,
		reply: "0 ttl:10000 b", same: true,
		cut: "KEYS[3] and ARGV[7] ~= '0'", paste: "KEYS[3]",
	},
	{
		name: "another's, one that is no number", script: lua.HeadStart,
		args:   "a 30000 3600000 0 1 9000000000000000 60 60",
		before: heldByB + "; SET CHANNEL text PX 5000",
		reply:  "0 ttl:10000 b", hash: "b=1", lease: 10000, token: "5000", keep: 20000, start: "60", until: 11000,
		cut: "(tonumber(start) or 0) <= tonumber(ARGV[7])", paste: "tonumber(start) <= tonumber(ARGV[7])",
	},
	{
		name: "free: it ends", script: lua.HeadStart, args: "a 30000 3600000 0 1 9000000000000000 0 30",
		before: "SET CHANNEL 30 PX 5000",
		reply:  "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "redis.pcall('DEL', KEYS[3])", paste: "redis.pcall('GET', KEYS[3])",
	},
	{
		name: "free, another needs more", script: lua.HeadStart, args: "a 30000 3600000 0 1 9000000000000000 20 20",
		before: "SET CHANNEL 30 PX 5000",
		reply:  "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000, start: "30", until: 5000,
		cut: "(tonumber(start) or 0) <= tonumber(ARGV[8])", paste: "true",
	},
	{
		name: "free, the key is of another type", script: lua.HeadStart,
		args:   "a 30000 3600000 0 1 9000000000000000 20 20",
		before: "RPUSH CHANNEL x; PEXPIRE CHANNEL 5000",
		reply:  "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "local start = redis.pcall('GET', KEYS[3])\n  if", paste: "local start = redis.call('GET', KEYS[3])\n  if",
	},
	{
		name: "others listen, and one is far away", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16",
		before: heldByA + "; SET CHANNEL 30 PX 5000",
		reply:  "0 1 '' 30", token: "5000", keep: 20000, start: "30", until: 5000,
		fair: fair{listen: "all", told: "all:0"},
		cut:  "return {0, heard, '', tonumber(start) or 0}", paste: "return {0, heard}",
	},
	{
		name: "others listen, and a head start is no number", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16",
		before: heldByA + "; SET CHANNEL text PX 5000",
		reply:  "0 1 '' ''", token: "5000", keep: 20000, start: "text", until: 5000,
		fair: fair{listen: "all", told: "all:0"},
		cut:  "tonumber(start) or 0}", paste: "start}",
	},
	{
		name: "nobody listens any more", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16", before: heldByA +
			"; SET CHANNEL 30 PX 5000",
		reply: "1 clock last:16", hash: "a=1", lease: 30000, token: "last", keep: 3600000, start: "30", until: 5000,
		cut: "if heard ~= 0 then", paste: "if true then",
	},
}
