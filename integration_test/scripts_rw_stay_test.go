package integration_test

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/holdfast-go/holdfast/lua"
)

// A lock that u:h7 wrote, and has left; and one that it goes on reading.
const (
	stayOf7     = "HSET LOCK mode write u:h07:write till@40000; PEXPIRE LOCK 40000; SET TOKEN 5000 PX 20000"
	leftReads7  = "HSET LOCK mode write u:h07:write till@40000 u:h7 1; PEXPIRE LOCK 60000; SET READS:u:h7 1 PX 60000; SET TOKEN 5000 PX 20000"
	overReads7  = "HSET LOCK mode write u:h07:write till@-1 u:h7 1; PEXPIRE LOCK 60000; SET READS:u:h7 1 PX 60000; SET TOKEN 5000 PX 20000"
	overDead7   = "HSET LOCK mode write u:h07:write till@-1 u:h7 1; PEXPIRE LOCK 60000; SET TOKEN 5000 PX 20000"
	overNobody7 = "HSET LOCK mode write u:h07:write till@-1; PEXPIRE LOCK 60000; SET TOKEN 5000 PX 20000"
)

var tillInHash = regexp.MustCompile(`till\d+`)

// tills writes the end of a stay in a hash as the row does that wants it: "till@5" is 5 ms after the
// row was prepared, "till+5" after the script ran, and "till~5" near the former, as in "ttl:".
func (c clock) tills(want, hash string) string {
	return tillInHash.ReplaceAllStringFunc(hash, func(text string) string {
		ms, _ := strconv.ParseInt(text[len("till"):], 10, 64)
		if wanted := regexp.MustCompile(`till\+(\d+)`).FindStringSubmatch(want); wanted != nil {
			after, _ := strconv.ParseInt(wanted[1], 10, 64)
			if ms-c.to/1000 <= after && after <= ms-c.from/1000 {
				return wanted[0]
			}
		}
		if wanted := regexp.MustCompile(`till~(\d+)`).FindStringSubmatch(want); wanted != nil {
			after, _ := strconv.ParseInt(wanted[1], 10, 64)
			if near(after, ms-c.to/1000) || near(after, ms-c.from/1000) {
				return wanted[0]
			}
		}
		return fmt.Sprintf("till@%d", ms-c.start)
	})
}

// What stays taken after a write. ARGV of RwLeave: owner, for how much longer, command to announce.
var rwStayRows = []row{
	{
		name: "left by the writer", script: lua.RwLeave, args: "u:h7 5000 PUBLISH", before: writeBy7,
		reply: "1", hash: "mode=write u:h07:write=till+5000", lease: 5000, token: "5000", keep: 20000,
		fair: fair{listen: "rw", told: "rw:1"},
		cut:  "call('PEXPIRE', name, math.max(stay, rest, 1))", paste: "",
	},
	{
		name: "left by the writer, for longer than is left", script: lua.RwLeave, args: "u:h7 90000 PUBLISH",
		before: writeBy7,
		reply:  "1", hash: "mode=write u:h07:write=till~60000", lease: 60000, token: "5000", keep: 20000,
		fair: fair{listen: "rw"},
		cut:  "stay = math.min(stay, stands)", paste: "",
	},
	{
		name: "left by the writer who reads", script: lua.RwLeave, args: "u:h7 5000 PUBLISH", before: bothBy7,
		reply: "1", hash: "mode=write u:h07:write=till+5000 u:h7=1", lease: 40000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=40000"}, fair: fair{listen: "rw", told: "rw:1"},
		cut: "math.max(stay, rest, 1)", paste: "math.max(stay, 1)",
	},
	{
		name: "left by the writer who reads, the end", script: lua.RwLeave, args: "u:h7 5000 PUBLISH", before: bothBy7,
		reply: "1", hash: "mode=write u:h07:write=till+5000 u:h7=1", lease: 40000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=40000"},
		cut:       "now + stay)", paste: "now + math.max(stay, rest))",
	},
	{
		name: "left by the writer who reads by another name", script: lua.RwLeave, args: "u:h7 5000 PUBLISH",
		before: writeBy7 + "; HSET LOCK u:h8 1; SET READS:u:h8 1 PX 40000",
		reply:  "1", hash: "mode=write u:h07:write=till+5000 u:h8=1", lease: 40000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h8=40000"},
		cut:       "call('PTTL', prefix .. owner", paste: "call('PTTL', prefix .. ARGV[1]",
	},
	{
		name: "left before", script: lua.RwLeave, args: "u:h7 90000 PUBLISH", before: stayOf7,
		reply: "1", hash: "mode=write u:h07:write=till@40000", lease: 40000, token: "5000", keep: 20000,
		cut: "if not ends and call('HEXISTS', name, field) == 0 then", paste: "if call('HEXISTS', name, field) == 0 then",
	},
	{
		name: "left before, for longer", script: lua.RwLeave, args: "u:h7 20000 PUBLISH", before: leftReads7,
		reply: "1", hash: "mode=write u:h07:write=till+20000 u:h7=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=60000"}, fair: fair{listen: "rw", told: "rw:1"},
		cut: "string.sub(ends, 5) - now", paste: "0",
	},
	{
		name: "left by somebody who does not write", script: lua.RwLeave, args: "u:h7 5000 PUBLISH", before: readBy7,
		reply: "-1", same: true,
		cut: "if not ends and call('HEXISTS', name, field) == 0 then", paste: "if not ends and call('EXISTS', name) == 0 then",
	},
	{
		name: "it stays", script: lua.RwRead, args: "u:h9 30000 3600000 9000000000000000 '' ''", before: leftReads7,
		reply: "0 ttl:40000 4999 u:h07", same: true,
		cut: "stays or pttl", paste: "pttl",
	},
	{
		name: "its stay is over", script: lua.RwRead, args: "u:h9 30000 3600000 9000000000000000 '' ''", before: overReads7,
		reply: "1 5000 5000 clock", hash: "mode=read u:h7=1 u:h9=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=60000 u:h9=30000"},
		cut:       "if stays <= 0 then", paste: "if false then",
	},
	{
		name: "its stay is over, and a writer waits", script: lua.RwRead, args: "u:h9 30000 3600000 9000000000000000 '' ''",
		before: overReads7 + waits8,
		reply:  "0 ttl:40000 5000 u:h8", hash: "mode=read u:h7=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=60000", writers: "u:h8@40000"},
		cut:       "call('HSET', name, 'mode', mode) else", paste: "else",
	},
	{
		name: "its stay is over, and nobody reads", script: lua.RwRead, args: "u:h9 30000 3600000 9000000000000000 '' ''", before: overNobody7,
		reply: "1 5000 5000 clock", hash: "mode=read u:h9=1", lease: 30000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h9=30000"},
		cut:       "call('HLEN', name) > 1 and 'read' or nil", paste: "'read'",
	},
	{
		name: "its stay is over, and its owner reads", script: lua.RwWrite, args: "u:h9 30000 3600000 0 9000000000000000 0",
		before: overReads7,
		reply:  "0 ttl:60000 '' u:h7", hash: "mode=read u:h7=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=60000"},
		cut:       "call('HDEL', name, left)", paste: "",
	},
	{
		name: "its stay is over, and the lease of its owner's read", script: lua.RwWrite, args: "u:h9 30000 3600000 0 9000000000000000 0",
		before: overDead7,
		reply:  "1 clock clock clock", hash: "mode=write u:h9:write=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "if stays <= 0 then", paste: "if false then",
	},
	{
		name: "it stays after the last read", script: lua.RwReadRelease, args: "u:h7 PUBLISH", before: leftReads7,
		reply: "1", hash: "mode=write u:h07:write=till@40000", lease: 40000, token: "5000", keep: 20000,
		fair: fair{listen: "rw", told: "rw:1"},
		cut:  "if ends > 0 then call('PEXPIRE', name, ends) else", paste: "if ends > 0 then call('PTTL', name) else",
	},
	{
		name: "its stay is over at the last read", script: lua.RwReadRelease, args: "u:h7 PUBLISH", before: overReads7,
		reply: "1", token: "5000", keep: 20000, fair: fair{listen: "rw", told: "rw:1"},
		cut: "if not stays then return {1} end", paste: "if not stays or stays <= 0 then return {1} end",
	},
	{
		name: "it stays, and its owner reads on", script: lua.RwReadRenew, args: "u:h7 90000 3600000 0", before: leftReads7,
		reply: "1", hash: "mode=write u:h07:write=till@40000 u:h7=1", lease: 90000, token: "5000", keep: 3600000,
		readWrite: readWrite{reads: "u:h7=90000"},
		cut:       "if stays <= 0 then", paste: "if true then",
	},
	{
		name: "its stay is over, and its owner reads on", script: lua.RwReadRenew, args: "u:h7 90000 3600000 0", before: overReads7,
		reply: "1", hash: "mode=read u:h7=1", lease: 90000, token: "5000", keep: 3600000,
		readWrite: readWrite{reads: "u:h7=90000"},
		cut:       "if stays <= 0 then", paste: "if false then",
	},
	{
		name: "it stays", script: lua.RwState, before: leftReads7,
		reply: "1 write ttl:60000 5000 '' u:h07:write 1 ttl:40000 u:h7 1 ttl:60000", same: true,
		cut: "count, left = '1', stays", paste: "left = stays",
	},
	{
		name: "its stay is over", script: lua.RwState, before: overReads7,
		reply: "1 read ttl:60000 5000 '' u:h7 1 ttl:60000", same: true,
		cut: "if stays and stays <= 0 then mode = 'read' end", paste: "",
	},
	{
		name: "who reads when a stay is over", script: lua.RwForce, args: "- PUBLISH u:h7", before: overReads7,
		reply: "1", token: "5000", keep: 20000, fair: fair{listen: "rw", told: "rw:1"},
		cut: "if stays <= 0 then", paste: "if false then",
	},
}
