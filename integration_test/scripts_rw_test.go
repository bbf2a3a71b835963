package integration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lua"
)

// The keys of a read-write lock beside those of any other, spelled out because the spelling is a
// promise to Redisson, and to other versions.
const (
	scriptRwChannel = "redisson_rwlock:{orders:42}"
	scriptWriters   = "holdfast_rwlock_writers:{orders:42}"
	scriptReads     = "{orders:42}:%s:rwlock_timeout:1"
)

// leaseKey is the key of a reader's lease for "READS:u:h7"; "READS:u:7#2" is that of the second hold of one
// of Redisson's. Other words stay as they are.
func leaseKey(word string) string {
	owner, ok := strings.CutPrefix(word, "READS:")
	if !ok {
		return word
	}
	owner, n, several := strings.Cut(owner, "#")
	key := fmt.Sprintf(scriptReads, owner)
	if several {
		key = strings.TrimSuffix(key, "1") + n
	}
	return key
}

// readWrite is what a row expects beside the hash of a read-write lock.
type readWrite struct {
	reads   string // keys of leases with their times to live as in "ttl:": "u:h7=30000"
	writers string // who waits to write, and for how long after the row was prepared or the script ran, as in [fair]
}

// readWriteKeys are the KEYS of the scripts.
func (r row) readWriteKeys() []any {
	owner, _, _ := strings.Cut(r.args, " ")
	reads := leaseKey("READS:" + owner)
	switch r.script {
	case lua.RwRead:
		return []any{scriptLock, scriptToken, scriptWriters, reads}
	case lua.RwReadRelease:
		return []any{scriptLock, scriptRwChannel, reads}
	case lua.RwReadRenew:
		return []any{scriptLock, scriptToken, reads}
	case lua.RwWriteRelease:
		return []any{scriptLock, scriptRwChannel, scriptWriters}
	case lua.RwForce, lua.RwLeave:
		return []any{scriptLock, scriptRwChannel}
	}
	return []any{scriptLock, scriptToken, scriptWriters}
}

// checkReadWrite compares the leases of readers and the writers that wait.
func (w readWrite) checkReadWrite(ctx context.Context, rdb *redis.Client, after dataset, span clock) error {
	want := map[string]int64{}
	for pair := range strings.FieldsSeq(w.reads) {
		owner, ms, _ := strings.Cut(pair, "=")
		var n int64
		if _, err := fmt.Sscan(ms, &n); err != nil {
			return err
		}
		want[leaseKey("READS:"+owner)] = n
	}
	for key, is := range after {
		if strings.Contains(key, "rwlock_timeout") {
			ms, ok := want[key]
			if !ok || !near(ms, is.ttl.Milliseconds()) {
				return fmt.Errorf("%s has %v to live; want %v", key, is.ttl, want)
			}
			delete(want, key)
		}
	}
	if len(want) > 0 {
		return fmt.Errorf("not there: %v", want)
	}
	var have []string
	for _, z := range rdb.ZRangeWithScores(ctx, scriptWriters, 0, -1).Val() {
		owner, ms := z.Member.(string), int64(z.Score)
		switch wanted := placeIn(w.writers, owner); {
		case strings.Contains(wanted, "@"):
			owner = fmt.Sprintf("%s@%d", owner, ms-span.start)
		case ms-span.to/1000 <= 5000 && ms-span.from/1000 >= 5000:
			owner += "+5000"
		default:
			owner += fmt.Sprintf("+%d..%d", ms-span.to/1000, ms-span.from/1000)
		}
		have = append(have, owner)
	}
	slices.Sort(have)
	if got := strings.Join(have, " "); got != w.writers {
		return fmt.Errorf("writers that wait: %q, want %q", got, w.writers)
	}
	return nil
}

// placeIn is the owner's word in a list of places.
func placeIn(list, owner string) string {
	for word := range strings.FieldsSeq(list) {
		if strings.HasPrefix(word, owner+"@") || strings.HasPrefix(word, owner+"+") {
			return word
		}
	}
	return ""
}

// What stands there before a script runs: an owner of this library reads, or writes, or does both.
const (
	readBy7  = "HSET LOCK mode read u:h7 1; PEXPIRE LOCK 60000; SET READS:u:h7 1 PX 60000; SET TOKEN 5000 PX 20000"
	readBy9  = "HSET LOCK mode read u:h9 1; PEXPIRE LOCK 60000; SET READS:u:h9 1 PX 60000; SET TOKEN 5000 PX 20000"
	readBy79 = "HSET LOCK mode read u:h7 1 u:h9 2; PEXPIRE LOCK 60000; SET READS:u:h7 1 PX 60000; SET READS:u:h9 1 PX 45000; " +
		"SET TOKEN 5000 PX 20000"
	deadBy9   = "HSET LOCK mode read u:h9 1; PEXPIRE LOCK 60000; SET TOKEN 5000 PX 20000"
	writeBy7  = "HSET LOCK mode write u:h7:write 1; PEXPIRE LOCK 60000; SET TOKEN 5000 PX 20000"
	writeBy9  = "HSET LOCK mode write u:h9:write 1; PEXPIRE LOCK 60000; SET TOKEN 5000 PX 20000"
	bothBy7   = "HSET LOCK mode write u:h7:write 1 u:h7 1; PEXPIRE LOCK 60000; SET READS:u:h7 1 PX 40000; SET TOKEN 5000 PX 20000"
	waits8    = "; ZADD WRITERS @40000 u:h8; PEXPIRE WRITERS 90000"
	waited8   = "; ZADD WRITERS @-1 u:h8; PEXPIRE WRITERS 90000"
	redissons = "HSET LOCK mode read r:1 2; PEXPIRE LOCK 60000; SET READS:r:1#2 1 PX 200000; SET TOKEN 5000 PX 20000"
)

// ARGV: owner, lease, time to live of the token's key, until when, ticket, name by which it writes.
var rwReadRows = []row{
	{
		name: "free, and no write is known", script: lua.RwRead, args: "u:h7 30000 3600000 9000000000000000 '' ''",
		reply: "1 clock clock clock", hash: "mode=read u:h7=1", lease: 30000, token: "clock", keep: 3600000,
		readWrite: readWrite{reads: "u:h7=30000"},
		cut:       "call('SET', tokens, last, 'PX', ARGV[3])", paste: "",
	},
	{
		name: "free", script: lua.RwRead, args: "u:h7 30000 3600000 9000000000000000 '' ''", before: "SET TOKEN 5000 PX 20000",
		reply: "1 5000 5000 clock", hash: "mode=read u:h7=1", lease: 30000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=30000"},
		cut:       "call('SET', lease, '1', 'PX', held[2] and math.max(ms, call('PTTL', lease)) or ms)", paste: "",
	},
	{
		name: "too late", script: lua.RwRead, args: "u:h7 30000 3600000 1000000000000000 '' ''",
		reply: "-2 clock", same: true, cut: "then return {-2, clock} end", paste: "then end",
	},
	{
		name: "others read", script: lua.RwRead, args: "u:h7 15000 3600000 9000000000000000 '' ''", before: readBy9,
		reply: "1 5000 5000 clock", hash: "mode=read u:h7=1 u:h9=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=15000 u:h9=60000"},
		cut:       "math.max(left, ms)", paste: "ms",
	},
	{
		name: "others read, with less left", script: lua.RwRead, args: "u:h7 90000 3600000 9000000000000000 '' ''", before: readBy9,
		reply: "1 5000 5000 clock", hash: "mode=read u:h7=1 u:h9=1", lease: 90000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=90000 u:h9=60000"},
		cut:       "if left >= 0 then", paste: "if left < 0 then",
	},
	{
		name: "repeated", script: lua.RwRead, args: "u:h7 30000 3600000 9000000000000000 '' ''", before: readBy7,
		reply: "1 5000 5000 clock", hash: "mode=read u:h7=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=60000"},
		cut:       "held[2] and math.max(ms, call('PTTL', lease)) or ms", paste: "ms",
	},
	{
		name: "repeated, after a re-entry", script: lua.RwRead, args: "u:h9 90000 3600000 9000000000000000 '' ''", before: readBy79,
		reply: "1 5000 5000 clock", hash: "mode=read u:h7=1 u:h9=2", lease: 90000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=60000 u:h9=90000"},
		cut:       "owner, held[2] or '1')", paste: "owner, '1')",
	},
	{
		name: "another writes", script: lua.RwRead, args: "u:h7 30000 3600000 9000000000000000 '' ''", before: writeBy9,
		reply: "0 ttl:60000 4999 u:h9", same: true,
		cut: "if mode ~= 'read' and not held[3] then", paste: "if false then",
	},
	{
		name: "another writes, still", script: lua.RwRead, args: "u:h7 30000 3600000 9000000000000000 4000 ''", before: writeBy9,
		reply: "0 ttl:60000 4000 u:h9", same: true,
		cut: "local ticket = ARGV[5] ~= '' and ARGV[5] or", paste: "local ticket =",
	},
	{
		name: "the owner writes", script: lua.RwRead, args: "u:h7 30000 3600000 9000000000000000 '' ''", before: writeBy7,
		reply: "1 5000 5000 clock", hash: "mode=write u:h7:write=1 u:h7=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=30000"},
		cut:       "mode or 'read'", paste: "'read'",
	},
	{
		name: "the owner writes, by another name", script: lua.RwRead, args: "u:h8 30000 3600000 9000000000000000 '' u:h7", before: writeBy7,
		reply: "1 5000 5000 clock", hash: "mode=write u:h7:write=1 u:h8=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h8=30000"},
		cut:       "(ARGV[6] ~= '' and ARGV[6] or owner)", paste: "owner",
	},
	{
		name: "the owner writes, and another waits", script: lua.RwRead, args: "u:h7 30000 3600000 9000000000000000 '' ''",
		before: writeBy7 + waits8,
		reply:  "1 5000 5000 clock", hash: "mode=write u:h7:write=1 u:h7=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=30000", writers: "u:h8@40000"},
		cut:       "not held[2] and not held[3] and", paste: "not held[2] and",
	},
	{
		name: "a writer waits", script: lua.RwRead, args: "u:h7 30000 3600000 9000000000000000 '' ''", before: readBy9 + waits8,
		reply: "0 ttl:40000 5000 u:h8", same: true,
		cut: "if writer then return {0, place", paste: "if false then return {0, place",
	},
	{
		name: "a writer waits for a free lock", script: lua.RwRead, args: "u:h7 30000 3600000 9000000000000000 '' ''",
		before: "SET TOKEN 5000 PX 20000" + waits8,
		reply:  "0 ttl:40000 5000 u:h8", same: true,
		cut: "if not held[2] and not held[3] and (", paste: "if mode and not held[2] and not held[3] and (",
	},
	{
		name: "a writer waits, and the owner reads", script: lua.RwRead, args: "u:h9 30000 3600000 9000000000000000 '' ''",
		before: readBy9 + waits8,
		reply:  "1 5000 5000 clock", hash: "mode=read u:h9=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h9=60000", writers: "u:h8@40000"},
		cut:       "not held[2] and not held[3] and", paste: "not held[3] and",
	},
	{
		name: "a writer waited, and is gone", script: lua.RwRead, args: "u:h7 30000 3600000 9000000000000000 '' ''",
		before: readBy9 + waited8,
		reply:  "1 5000 5000 clock", hash: "mode=read u:h7=1 u:h9=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=30000 u:h9=60000", writers: "u:h8@-1"},
		cut:       "tonumber(last[2]) > now", paste: "true",
	},
	{
		name: "a writer waits, the one of the ticket has written", script: lua.RwRead,
		args: "u:h7 30000 3600000 9000000000000000 4999 ''", before: readBy9 + waits8,
		reply: "1 5000 5000 clock", hash: "mode=read u:h7=1 u:h9=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h7=30000 u:h9=60000", writers: "u:h8@40000"},
		cut:       "tonumber(last or 0) <= tonumber(ARGV[5])", paste: "true",
	},
	{
		name: "a writer waits, the one of the ticket has not written", script: lua.RwRead,
		args: "u:h7 30000 3600000 9000000000000000 5000 ''", before: readBy9 + waits8,
		reply: "0 ttl:40000 5000 u:h8", same: true,
		cut: "tonumber(last or 0) <= tonumber(ARGV[5])", paste: "tonumber(last or 0) < tonumber(ARGV[5])",
	},
	{
		name: "a lock of another kind", script: lua.RwRead, args: "u:h7 30000 3600000 9000000000000000 '' ''", before: heldByB,
		reply: "0 ttl:10000 4999 b", same: true,
		cut: "if fields > 0 then", paste: "if fields > 0 and mode then",
	},
	{
		name: "many fields", script: lua.RwRead, args: "u:h7 30000 3600000 9000000000000000 '' ''", before: manyFields,
		reply: "0 ttl:10000 0 129", same: true,
		cut: "if fields > 128 then return {0, pttl, ticket, fields}", paste: "if fields > 128 then return {0, pttl, ticket}",
	},
	{
		name: "no hash", script: lua.RwRead, args: "u:h7 30000 3600000 9000000000000000 '' ''", before: notALock,
		reply: "!WRONGTYPE", same: true,
		cut: "local held = call('HMGET'", paste: "call('DEL', name)\nlocal held = call('HMGET'",
	},
	{
		name: "a token that is none", script: lua.RwRead, args: "u:h7 30000 3600000 9000000000000000 '' ''",
		before: "SET TOKEN x PX 20000", reply: "!HOLDFAST", same: true,
		cut: "if last and string.find(last, '%D') then", paste: "if false then",
	},
}

// ARGV: owner, lease, time to live of the token's key, repeated, until when, place.
var rwWriteRows = []row{
	{
		name: "free", script: lua.RwWrite, args: "u:h7 30000 3600000 0 9000000000000000 5000",
		reply: "1 clock clock clock", hash: "mode=write u:h7:write=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "local limited = redis.pcall('PEXPIRE', name, lease)", paste: "local limited = 1",
	},
	{
		name: "too late", script: lua.RwWrite, args: "u:h7 30000 3600000 0 1000000000000000 5000",
		reply: "-2 clock", same: true, cut: "then return {-2, clock} end", paste: "then end",
	},
	{
		name: "free, the token is ahead of the clock", script: lua.RwWrite, args: "u:h7 30000 3600000 0 9000000000000000 5000",
		before: "SET TOKEN 9000000000000000 PX 20000",
		reply:  "1 9000000000000001 9000000000000001 clock", hash: "mode=write u:h7:write=1", lease: 30000,
		token: "9000000000000001", keep: 3600000,
		cut: "math.max(n + 1, tonumber(token))", paste: "math.max(n, tonumber(token))",
	},
	{
		name: "free, after it has waited", script: lua.RwWrite, args: "u:h8 30000 3600000 0 9000000000000000 5000",
		before: "SET TOKEN 5000 PX 20000" + waits8,
		reply:  "1 clock clock clock", hash: "mode=write u:h8:write=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "redis.pcall('ZREM', writers, owner) -- a place", paste: "-- a place",
	},
	{
		name: "another writes", script: lua.RwWrite, args: "u:h7 30000 3600000 0 9000000000000000 5000", before: writeBy9,
		reply: "0 ttl:60000 '' u:h9", hash: "mode=write u:h9:write=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{writers: "u:h7+5000"},
		cut:       "call('ZADD', writers, now + ARGV[6], owner)", paste: "",
	},
	{
		name: "another writes, and the owner does not wait", script: lua.RwWrite,
		args: "u:h7 30000 3600000 0 9000000000000000 0", before: writeBy9,
		reply: "0 ttl:60000 '' u:h9", same: true,
		cut: "if ARGV[6] ~= '0' then", paste: "if true then local ARGV = {0, 0, 0, 0, 0, 5000}",
	},
	{
		name: "another writes, and has left", script: lua.RwWrite, args: "u:h7 30000 3600000 0 9000000000000000 0",
		before: "HSET LOCK mode write u:h09:write till@40000; PEXPIRE LOCK 60000",
		reply:  "0 ttl:40000 '' u:h09", same: true,
		cut: "stays or pttl", paste: "pttl",
	},
	{
		name: "another waits, too", script: lua.RwWrite, args: "u:h7 30000 3600000 0 9000000000000000 5000",
		before: writeBy9 + waits8,
		reply:  "0 ttl:60000 '' u:h9", hash: "mode=write u:h9:write=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{writers: "u:h7+5000 u:h8@40000"},
		cut:       "call('ZADD', writers, now", paste: "call('DEL', writers) call('ZADD', writers, now",
	},
	{
		name: "another reads", script: lua.RwWrite, args: "u:h7 30000 3600000 0 9000000000000000 5000", before: readBy9,
		reply: "0 ttl:60000 '' u:h9", hash: "mode=read u:h9=1", lease: 60000, token: "5000", keep: 20000,
		readWrite: readWrite{reads: "u:h9=60000", writers: "u:h7+5000"},
		cut:       "if rest > 0 then blocked", paste: "if rest > 70000 then blocked",
	},
	{
		name: "the owner reads", script: lua.RwWrite, args: "u:h7 30000 3600000 0 9000000000000000 0", before: readBy7,
		reply: "0 ttl:60000 '' u:h7", same: true,
		cut: "if mode == 'read' then", paste: "if mode == 'read' and call('HEXISTS', name, owner) == 0 then",
	},
	{
		name: "one read whose lease has ended", script: lua.RwWrite, args: "u:h7 30000 3600000 0 9000000000000000 5000",
		before: deadBy9,
		reply:  "1 clock clock clock", hash: "mode=write u:h7:write=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "if dead then call('DEL', name) end", paste: "",
	},
	{
		name: "one of two is alive, the one with less left", script: lua.RwWrite,
		args:   "u:h7 30000 3600000 0 9000000000000000 0",
		before: deadBy9 + "; HSET LOCK u:h8 1; SET READS:u:h8 1 PX 20000",
		reply:  "0 ttl:20000 '' u:h8", same: true,
		cut: "blocked = {0, rest,", paste: "blocked = {0, call('PTTL', name),",
	},
	{
		name: "one of Redisson's reads by its second hold", script: lua.RwWrite, args: "u:h7 30000 3600000 0 9000000000000000 0",
		before: redissons, reply: "0 ttl:200000 '' r:1", same: true,
		cut: "or tonumber(hash[i + 1]) or 0", paste: "or 1",
	},
	{
		name: "repeated", script: lua.RwWrite, args: "u:h7 30000 3600000 1 9000000000000000 5000", before: writeBy7,
		reply: "1 5000 5000 clock", hash: "mode=write u:h7:write=1", lease: 60000, token: "5000", keep: 20000,
		cut: "if mine and last then", paste: "if false then",
	},
	{
		name: "repeated, with more left", script: lua.RwWrite, args: "u:h7 3000 3600000 1 9000000000000000 5000",
		before: writeBy7,
		reply:  "1 5000 5000 clock", hash: "mode=write u:h7:write=1", lease: 60000, token: "5000", keep: 20000,
		cut: "if call('PTTL', name) < ms then", paste: "if true then",
	},
	{
		name: "its own, and not repeated", script: lua.RwWrite, args: "u:h7 30000 3600000 0 9000000000000000 0", before: writeBy7,
		reply: "0 ttl:60000 '' u:h7", same: true,
		cut: "ARGV[4] == '1' and", paste: "",
	},
	{
		name: "a lock of another kind", script: lua.RwWrite, args: "u:h7 30000 3600000 0 9000000000000000 0", before: heldByB,
		reply: "0 ttl:10000 '' b", same: true,
		cut: "if fields > 0 then", paste: "if fields > 0 and mode then",
	},
	{
		name: "no hash", script: lua.RwWrite, args: "u:h7 30000 3600000 0 9000000000000000 0", before: notALock,
		reply: "!WRONGTYPE", same: true,
		cut: "local mode, field = call(", paste: "call('DEL', name)\nlocal mode, field = call(",
	},
	{
		name: "a token that is none", script: lua.RwWrite, args: "u:h7 30000 3600000 0 9000000000000000 0",
		before: deadBy9 + "; SET TOKEN x PX 20000", reply: "!HOLDFAST", same: true,
		cut: "if last and (#last", paste: "if false and (#last",
	},
}
