package integration_test

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lua"
)

// The keys of an election beside those of its fair lock.
const (
	scriptSaid     = "holdfast_election:{orders:42}"
	scriptElection = "holdfast_election__channel:{orders:42}"
)

// announcement is what a row expects of an announcement. In the commands before, "said:5000/c:h1/v"
// stands for its text.
type announcement struct {
	said  string
	known int64 // its time to live as in "ttl:"
	other bool  // it is a key of another type, which has to be there
}

// checkSaid compares the announcement.
func (r row) checkSaid(ctx context.Context, rdb *redis.Client, after dataset, span clock) error {
	is, there := after[scriptSaid]
	if r.other {
		if !there {
			return errors.New("the key of another type is gone")
		}
		return nil
	}
	return r.checkKey("announcement", r.said, rdb.Get(ctx, scriptSaid).Val(), r.known, is.ttl, span)
}

// electionKeys are the KEYS of the scripts of an election.
func (r row) electionKeys() []any {
	switch r.script {
	case lua.ElectionAnnounce:
		return []any{scriptLock, scriptSaid, scriptElection}
	case lua.ElectionLeader:
		return []any{scriptLock, scriptSaid}
	case lua.ElectionRenew:
		return []any{scriptLock, scriptToken, scriptSaid}
	}
	return []any{scriptLock, scriptToken, scriptQueue, scriptEnds, scriptChannel, scriptSaid, scriptElection}
}

// What stands before: a leader that has announced itself, or another one.
const (
	saidByC   = "; SET SAID said:5000/c:h1/v PX 50000"
	saidByD   = "; SET SAID said:4999/d:h1/w PX 50000"
	saidLater = "; SET SAID said:5001/d:h1/w PX 50000"
	saidLong  = "; SET SAID said:10000/d:h1/w PX 50000"
)

const (
	// ARGV: owner, token, value, time to live of the announcement, command to announce.
	announceArgs = "c:h1 5000 v 3600000 PUBLISH"
	// ARGV: owner, command to announce, claim, time to live of the token's key.
	resignArgs = "c:h1 PUBLISH 1000 3600000"
)

var electionRows = append([]row{
	{
		name: "free", script: lua.ElectionAnnounce, args: announceArgs, reply: "-1", same: true,
		cut: "if not held then return {-1} end", paste: "",
	},
	{
		name: "another's", script: lua.ElectionAnnounce, args: announceArgs, before: heldByB, reply: "-1", same: true,
		cut: "call('HEXISTS', name, ARGV[1])", paste: "call('EXISTS', name)",
	},
	{
		name: "held", script: lua.ElectionAnnounce, args: announceArgs, before: heldByC, reply: "1",
		hash: "c:h1=1", lease: 10000, token: "5000", keep: 20000, announcement: announcement{said: "5000 c:h1 v", known: 3600000},
		fair: fair{listen: "observers", told: "observers:5000"},
		cut:  "'PX', ARGV[4])", paste: "'PX', 1000)",
	},
	{
		name: "held, and observers are told", script: lua.ElectionAnnounce, args: "c:h1 5000 v 3600000 SPUBLISH",
		before: heldByC + saidByD, reply: "1", hash: "c:h1=1", lease: 10000, token: "5000", keep: 20000,
		announcement: announcement{said: "5000 c:h1 v", known: 3600000},
		cut:          "call('SET', KEYS[2]", paste: "call('SET', KEYS[2], 'x', 'PX', 1, 'NX') call('GET', KEYS[2]",
	},
	{
		name: "held, and announced already", script: lua.ElectionAnnounce, args: announceArgs, before: heldByC + saidByC,
		reply: "1", hash: "c:h1=1", lease: 10000, token: "5000", keep: 20000, announcement: announcement{said: "5000 c:h1 v", known: 3600000},
		fair: fair{listen: "observers", told: "observers:5000"},
		cut:  "last > token", paste: "last >= token",
	},
	{
		name: "held, a greater token has announced itself", script: lua.ElectionAnnounce, args: announceArgs,
		before: heldByC + saidLater, reply: "-1", same: true,
		cut: "#last == #token and last > token", paste: "false",
	},
	{
		name: "held, a longer token has announced itself", script: lua.ElectionAnnounce, args: announceArgs,
		before: heldByC + saidLong, reply: "-1", same: true,
		cut: "#last > #token or", paste: "",
	},
	{
		name: "held, the announcement is of another type", script: lua.ElectionAnnounce, args: announceArgs,
		before: heldByC + "; HSET SAID a 1; PEXPIRE SAID 10000", reply: "!WRONGTYPE", same: true,
		cut: "call('GET', KEYS[2])", paste: "nil",
	},
	{
		name: "key of another type", script: lua.ElectionAnnounce, args: announceArgs, before: notALock,
		reply: "!WRONGTYPE", same: true,
		cut: "local held = call", paste: "call('DEL', name)\nlocal held = call",
	},
	{
		name: "nobody", script: lua.ElectionLeader, reply: "0", same: true,
		cut: "if not token or", paste: "if token and",
	},
	{
		name: "held, and not announced", script: lua.ElectionLeader, before: heldByC, reply: "0", same: true,
		cut: "return {0}", paste: "return {1}",
	},
	{
		name: "held, announced by the one before", script: lua.ElectionLeader, before: heldByC + saidByD, reply: "0", same: true,
		cut: " or redis.call('HEXISTS', KEYS[1], owner) == 0", paste: "",
	},
	{
		name: "announced, the lease has ended", script: lua.ElectionLeader, before: strings.TrimPrefix(saidByC, "; "),
		reply: "0", same: true,
		cut: " or redis.call('HEXISTS', KEYS[1], owner) == 0", paste: "",
	},
	{
		name: "announced", script: lua.ElectionLeader, before: heldByC + saidByC, reply: "1 c:h1 5000 v ttl:10000", same: true,
		cut: "redis.call('PTTL', KEYS[1])}", paste: "redis.call('PTTL', KEYS[2])}",
	},
	{
		name: "announced without a value", script: lua.ElectionLeader, before: heldByC + "; SET SAID said:5000/c:h1/ PX 50000",
		reply: "1 c:h1 5000 '' ttl:10000", same: true,
		cut: "'^(%d+) (%S+) (.*)$'", paste: "'^(%d+) (%S+) (.+)$'",
	},
	{
		name: "something else is announced", script: lua.ElectionLeader, before: heldByC + "; SET SAID text PX 50000",
		reply: "0", same: true,
		cut: "if not token or", paste: "if token and",
	},
	{
		name: "key of another type", script: lua.ElectionLeader, before: notALock + saidByC, reply: "!WRONGTYPE", same: true,
		cut: " or redis.call('HEXISTS', KEYS[1], owner) == 0", paste: "",
	},
}, electionEndRows...)

var electionEndRows = []row{
	{
		name: "not the leader", script: lua.ElectionRelease, args: resignArgs, before: heldByB + saidByD, reply: "-1", same: true,
		fair: fair{listen: "observers"},
		cut:  "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then", paste: "do",
	},
	{
		name: "resigns, nobody follows", script: lua.ElectionRelease, args: resignArgs, before: heldByC + saidByC, reply: "1",
		token: "5000", keep: 20000, fair: fair{listen: "observers", told: "observers:0"},
		cut: "redis.call('DEL', KEYS[6])", paste: "",
	},
	{
		name: "resigns, and observers are told", script: lua.ElectionRelease, args: resignArgs, before: heldByC, reply: "1",
		token: "5000", keep: 20000, fair: fair{listen: "observers", told: "observers:0"},
		cut: "KEYS[7], '0'", paste: "KEYS[5], '0'",
	},
	{
		name: "resigns, and the next one is handed the lock", script: lua.ElectionRelease, args: resignArgs,
		before: heldByC + saidByC + waiting("d:h1@60000", "e:h1@60000"), reply: "1", hash: "d:h1=1", lease: 1000,
		token: "clock", keep: 3600000,
		fair: fair{queue: "e:h1@60000", life: longLife, listen: "observers d e", told: "observers:0 d:h1/1000"},
		cut:  "handed + now + claim), owner)", paste: "handed + now + claim), owner)\n      call('RPUSH', queue, owner)",
	},
	{
		name: "resigns, the announcement is of another type", script: lua.ElectionRelease, args: resignArgs,
		before: heldByC + "; HSET SAID a 1; PEXPIRE SAID 10000", reply: "1", token: "5000", keep: 20000,
		announcement: announcement{other: true},
		cut:          "if type(redis.pcall('GET', KEYS[6])) == 'string' then redis.call('DEL', KEYS[6]) end", paste: "redis.call('DEL', KEYS[6])",
	},
	{
		name: "a candidate leaves", script: lua.ElectionRelease, args: "e:h1 PUBLISH 1000 3600000",
		before: heldByC + saidByC + waiting("d:h1@60000", "e:h1@60000"), reply: "-1", hash: "c:h1=1", lease: 10000,
		token: "5000", keep: 20000, announcement: announcement{said: "5000 c:h1 v", known: 50000},
		fair: fair{queue: "d:h1@60000", life: longLife, listen: "observers"},
		cut:  "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then", paste: "do",
	},
	{
		name: "renewed", script: lua.ElectionRenew, args: "c:h1 30000 3600000", before: heldByC + saidByC, reply: "1",
		hash: "c:h1=1", lease: 30000, token: "5000", keep: 3600000, announcement: announcement{said: "5000 c:h1 v", known: 3600000},
		cut: "redis.call('PEXPIRE', KEYS[3], ARGV[3])", paste: "1",
	},
	{
		name: "renewed, the announcement was gone", script: lua.ElectionRenew, args: "c:h1 30000 3600000 announced", before: heldByC,
		reply: "1", hash: "c:h1=1", lease: 30000, token: "5000", keep: 3600000, announcement: announcement{said: "announced", known: 3600000},
		cut: "redis.pcall('SET', KEYS[3], ARGV[4], 'PX', ARGV[3])", paste: "",
	},
	{
		name: "renewed, the announcement stands", script: lua.ElectionRenew, args: "c:h1 30000 3600000 another",
		before: heldByC + saidByC, reply: "1", hash: "c:h1=1", lease: 30000, token: "5000", keep: 3600000,
		announcement: announcement{said: "5000 c:h1 v", known: 3600000},
		cut:          " == 0 and ARGV[4] then", paste: " and ARGV[4] then",
	},
	{
		name: "renewed, the announcement is kept for longer", script: lua.ElectionRenew, args: "c:h1 30000 40000",
		before: heldByC + saidByC, reply: "1", hash: "c:h1=1", lease: 30000, token: "5000", keep: 40000,
		announcement: announcement{said: "5000 c:h1 v", known: 50000},
		cut:          " and redis.call('PTTL', KEYS[3]) < tonumber(ARGV[3])", paste: "",
	},
	{
		name: "another's", script: lua.ElectionRenew, args: "c:h1 30000 3600000", before: heldByB + saidByD, reply: "-1", same: true,
		cut: "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 and", paste: "if",
	},
	{
		name: "free", script: lua.ElectionRenew, args: "c:h1 30000 3600000", reply: "-1", same: true,
		cut: "if not held then return {-1} end", paste: "",
	},
}
