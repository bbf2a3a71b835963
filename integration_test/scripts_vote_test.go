package integration_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// ARGV: owner, lease, time to live of the token's key, hold count, token that is proposed, until
// when.
var voteRows = []row{
	{
		name: "free", script: lua.Vote, args: "a 30000 3600000 1 6000",
		reply: "1 6000 '' 0 clock", hash: "a=1", lease: 30000, token: "6000", keep: 3600000,
		cut: "local limited = redis.pcall('PEXPIRE', name, lease)", paste: "local limited = 1",
	},
	{
		name: "free again after a lease has ended", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: "HSET LOCK b 1; PEXPIRE LOCK 0; SET TOKEN 5000 PX 20000",
		reply:  "1 6000 '' 5000 clock", hash: "a=1", lease: 30000, token: "6000", keep: 3600000,
		cut: "call('HSET', name, owner, ARGV[4])", paste: "call('HSET', name, owner, '2')",
	},
	{
		name: "another's", script: lua.Vote, args: "a 30000 3600000 1 6000", before: heldByB,
		reply: "0 ttl:10000 b 5000 clock", same: true,
		cut: "call('HKEYS', name)[1]", paste: "owner",
	},
	{
		name: "another's, for so long", script: lua.Vote, args: "a 30000 3600000 1 6000", before: heldByB,
		reply: "0 ttl:10000 b 5000 clock", same: true,
		cut: "{0, call('PTTL', name),", paste: "{0, 30000,",
	},
	{
		name: "another's, is not taken", script: lua.Vote, args: "a 30000 3600000 1 6000", before: heldByB,
		reply: "0 ttl:10000 b 5000 clock", same: true,
		cut: "call('HEXISTS', name, owner) == 0", paste: "false",
	},
	{
		name: "another's, without a time to live", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: "HSET LOCK b 1",
		reply:  "0 -1 b 0 clock", same: true,
		cut: "{0, call('PTTL', name),", paste: "{0, math.max(1, call('PTTL', name)),",
	},
	{
		name: "another's, and its token", script: lua.Vote, args: "a 30000 3600000 1 6000", before: heldByB,
		reply: "0 ttl:10000 b 5000 clock", same: true,
		cut: "call('GET', tokens) or '0', clock}", paste: "'0', clock}",
	},
	{
		name: "another's, whose token was evicted", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: "HSET LOCK b 1; PEXPIRE LOCK 10000",
		reply:  "0 ttl:10000 b 0 clock", same: true,
		cut: "call('GET', tokens) or '0', clock}", paste: "call('GET', tokens), clock}",
	},
	{
		name: "another's, whose token is of another type", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: "HSET LOCK b 1; PEXPIRE LOCK 10000; RPUSH TOKEN x; PEXPIRE TOKEN 20000",
		reply:  "!WRONGTYPE", same: true,
		cut: "call('GET', tokens) or '0', clock}", paste: "'0', clock}",
	},
	{
		name: "key of another type", script: lua.Vote, args: "a 30000 3600000 1 6000", before: notALock,
		reply: "!WRONGTYPE", same: true,
		cut: "local held = call('HLEN', name) > 0", paste: "call('DEL', name)\nlocal held = false",
	},
	{
		name: "the owner's own, its count", script: lua.Vote, args: "a 30000 3600000 2 5000", before: heldByA,
		reply: "1 5000 1 '' clock", hash: "a=2", lease: 30000, token: "5000", keep: 3600000,
		cut: "call('HSET', name, owner, ARGV[4])", paste: "call('HSET', name, owner, '1')",
	},
	{
		name: "the owner's own, its count goes down", script: lua.Vote, args: "a 30000 3600000 1 5000",
		before: heldThree,
		reply:  "1 5000 1 '' clock", hash: "a=1", lease: 30000, token: "5000", keep: 3600000,
		cut: "call('HSET', name, owner, ARGV[4])", paste: "if not held then call('HSET', name, owner, ARGV[4]) end",
	},
	{
		name: "the owner's own, repeated vote", script: lua.Vote, args: "a 30000 3600000 1 5000", before: heldByA,
		reply: "1 5000 1 '' clock", hash: "a=1", lease: 30000, token: "5000", keep: 3600000,
		cut: "if held then return {1, token, 1, '', clock} end", paste: "",
	},
	{
		name: "the owner's own, with less left", script: lua.Vote, args: "a 30000 3600000 1 5000", before: heldByA,
		reply: "1 5000 1 '' clock", hash: "a=1", lease: 30000, token: "5000", keep: 3600000,
		cut: "  call('PEXPIRE', name, lease) --", paste: "  --",
	},
	{
		name: "the owner's own, with more left", script: lua.Vote, args: "a 1000 3600000 1 5000", before: heldByA,
		reply: "1 5000 1 '' clock", hash: "a=1", lease: 10000, token: "5000", keep: 3600000,
		cut: "math.max(tonumber(lease), call('PTTL', name))", paste: "lease",
	},
	{
		name: "the owner's own, without a time to live", script: lua.Vote, args: "a 30000 3600000 1 5000",
		before: "HSET LOCK a 1; SET TOKEN 5000",
		reply:  "1 5000 1 '' clock", hash: "a=1", lease: 30000, token: "5000", keep: 3600000,
		cut: "  call('PEXPIRE', name, lease) --", paste: "  --",
	},
}

// What becomes of proposals above the server's clock.
var voteClockRows = []row{
	{
		name: "above what a token can be", script: lua.Vote, args: "a 30000 3600000 1 9007199254740992",
		reply: "1 clock '' 0 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "then token = clock end", paste: "then end",
	},
	{
		name: "years above the clock", script: lua.Vote, args: "a 30000 3600000 1 9000000000000000",
		reply: "1 clock '' 0 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "math.max(tonumber(clock), tonumber(last or 0) or 0)", paste: "most",
	},
	{
		name: "years above the clock, and the last", script: lua.Vote, args: "a 30000 3600000 1 9000000000000000",
		before: "SET TOKEN 8000000000000000 PX 20000",
		reply:  "1 8000000000000001 '' 8000000000000000 clock", hash: "a=1", lease: 30000, token: "8000000000000001",
		keep: 3600000,
		cut:  "then token = clock end", paste: "then end",
	},
	{
		name: "years above the clock, and not above the last by much", script: lua.Vote,
		args:   "a 30000 3600000 1 8000000000000009",
		before: "SET TOKEN 8000000000000000 PX 20000",
		reply:  "1 8000000000000009 '' 8000000000000000 clock", hash: "a=1", lease: 30000, token: "8000000000000009",
		keep: 3600000,
		cut:  "tonumber(last or 0) or 0)", paste: "0)",
	},
	{
		name: "more digits than the clock", script: lua.Vote, args: "a 30000 3600000 1 10000000000000000",
		reply: "1 clock '' 0 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "#token > #clock or", paste: "",
	},
	{
		name: "above the clock, and the last is no number", script: lua.Vote,
		args:   "a 30000 3600000 1 9000000000000000",
		before: "SET TOKEN text PX 20000",
		reply:  "!HOLDFAST", same: true,
		cut: "tonumber(last or 0) or 0)", paste: "tonumber(last or 0))",
	},
	{
		name: "the owner's own, told what others have granted", script: lua.Vote,
		args: "a 30000 3600000 1 8000000000000000", before: heldByA,
		reply: "1 8000000000000000 1 '' clock", hash: "a=1", lease: 30000, token: "8000000000000000", keep: 3600000,
		cut: "held and most or ", paste: "",
	},
	{
		name: "the owner's own, told what leaves no room", script: lua.Vote, args: "a 30000 3600000 1 9007199254740991",
		before: heldByA,
		reply:  "1 clock 1 '' clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
		cut: "math.min(known, most - 2 * day)", paste: "known",
	},
	{
		name: "another's, and the time", script: lua.Vote, args: "a 30000 3600000 1 6000", before: heldByB,
		reply: "0 ttl:10000 b 5000 clock", same: true,
		cut: "or '0', clock}\nend", paste: "or '0'}\nend",
	},
}

// What becomes of votes that come late.
var voteLateRows = []row{
	{
		name: "free, in time", script: lua.Vote, args: "a 30000 3600000 1 6000 9000000000000000",
		reply: "1 6000 '' 0 clock", hash: "a=1", lease: 30000, token: "6000", keep: 3600000,
		cut: "limit < clock)", paste: "limit > clock)",
	},
	{
		name: "free, in time by more digits", script: lua.Vote, args: "a 30000 3600000 1 6000 10000000000000000",
		reply: "1 6000 '' 0 clock", hash: "a=1", lease: 30000, token: "6000", keep: 3600000,
		cut: "#limit == #clock and ", paste: "",
	},
	{
		name: "free, too late", script: lua.Vote, args: "a 30000 3600000 1 6000 1000000000000000",
		reply: "-2 clock", same: true, cut: "then return {-2, clock} end", paste: "then end",
	},
	{
		name: "free, too late, above an old token", script: lua.Vote, args: "a 30000 3600000 1 6000 1000000000000000",
		before: "SET TOKEN 5000 PX 20000",
		reply:  "-2 clock", same: true, cut: "then return {-2, clock} end", paste: "then end",
	},
	{
		name: "free, the master's clock is not known", script: lua.Vote, args: "a 30000 3600000 1 6000 0",
		reply: "-2 clock", same: true, cut: "then return {-2, clock} end", paste: "then end",
	},
	{
		name: "too late, by fewer digits", script: lua.Vote, args: "a 30000 3600000 1 6000 999999999999999",
		reply: "-2 clock", same: true, cut: "#limit < #clock or ", paste: "",
	},
	{
		name: "the owner's own, too late", script: lua.Vote, args: "a 30000 3600000 3 6000 1000000000000000",
		before: heldByA,
		reply:  "-2 clock", same: true, cut: "then return {-2, clock} end", paste: "then end",
	},
	{
		name: "another's, too late", script: lua.Vote, args: "a 30000 3600000 1 6000 1000000000000000", before: heldByB,
		reply: "-2 clock", same: true, cut: "then return {-2, clock} end", paste: "then end",
	},
}

// What becomes of the token.
var voteTokenRows = []row{
	{
		name: "a greater one than the last", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: "SET TOKEN 5000 PX 20000",
		reply:  "1 6000 '' 5000 clock", hash: "a=1", lease: 30000, token: "6000", keep: 3600000,
		cut: "{1, token, 0, last or '0', clock}", paste: "{1, token, 0, '0', clock}",
	},
	{
		name: "the same as the last", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: "SET TOKEN 6000 PX 20000",
		reply:  "1 6001 '' 6000 clock", hash: "a=1", lease: 30000, token: "6001", keep: 3600000,
		cut: "last >= token", paste: "last > token",
	},
	{
		name: "a smaller one than the last", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: "SET TOKEN 7000 PX 20000",
		reply:  "1 7001 '' 7000 clock", hash: "a=1", lease: 30000, token: "7001", keep: 3600000,
		cut: "#last == #token and last >= token", paste: "false",
	},
	{
		name: "a greater one, and smaller as text", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: "SET TOKEN 70 PX 20000",
		reply:  "1 6000 '' 70 clock", hash: "a=1", lease: 30000, token: "6000", keep: 3600000,
		cut: "#last == #token and last >= token", paste: "last >= token",
	},
	{
		name: "a smaller one, and greater as text", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: "SET TOKEN 10000 PX 20000",
		reply:  "1 10001 '' 10000 clock", hash: "a=1", lease: 30000, token: "10001", keep: 3600000,
		cut: "#last > #token or ", paste: "",
	},
	{
		name: "the greatest that there is", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: "SET TOKEN 9007199254740990 PX 20000",
		reply:  "1 9007199254740991 '' 9007199254740990 clock", hash: "a=1", lease: 30000, token: "9007199254740991",
		keep: 3600000,
		cut:  "string.format('%.0f', n + 1)", paste: "tostring(n + 1)",
	},
	{
		name: "none is greater than the last", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: "SET TOKEN 9007199254740991 PX 20000",
		reply:  "!HOLDFAST", same: true,
		cut: "n >= 9007199254740991", paste: "n > 9007199254740991",
	},
	{
		name: "too many digits", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: "SET TOKEN 99007199254740991 PX 20000",
		reply:  "!HOLDFAST", same: true,
		cut: "n >= 9007199254740991", paste: "#last < 16",
	},
	{
		name: "the last is no number", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: "SET TOKEN text PX 20000",
		reply:  "!HOLDFAST", same: true,
		cut: "if not n or", paste: "if not n then n = 0 end\nif",
	},
	{
		name: "the last is text of a token's length", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: "SET TOKEN 00te PX 20000",
		reply:  "!HOLDFAST", same: true,
		cut: " or string.find(last, '%D')) then", paste: ") then",
	},
	{
		name: "the last is negative", script: lua.Vote, args: "a 30000 3600000 1 6000", before: "SET TOKEN -1 PX 20000",
		reply: "!HOLDFAST", same: true,
		cut: "local n = not string.find(last, '%D') and", paste: "local n =",
	},
	{
		name: "the last is of another type", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: "RPUSH TOKEN x; PEXPIRE TOKEN 20000",
		reply:  "!WRONGTYPE", same: true,
		cut: "local last = call", paste: "call('HSET', name, owner, '1')\nlocal last = call",
	},
	{
		name: "the last has no time to live", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: "SET TOKEN 5000",
		reply:  "1 6000 '' 5000 clock", hash: "a=1", lease: 30000, token: "6000", keep: 3600000,
		cut: "'PX', ARGV[3])", paste: "'KEEPTTL')",
	},
	{
		name: "the owner's own, is told a greater one", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: heldByA,
		reply:  "1 6000 1 '' clock", hash: "a=1", lease: 30000, token: "6000", keep: 3600000,
		cut:   "call('SET', tokens, token, 'PX', ARGV[3])",
		paste: "if not held then call('SET', tokens, token, 'PX', ARGV[3]) end",
	},
	{
		name: "the owner's own, knows a greater one", script: lua.Vote, args: "a 30000 3600000 1 4000", before: heldByA,
		reply: "1 5000 1 '' clock", hash: "a=1", lease: 30000, token: "5000", keep: 3600000,
		cut: "held and last or ", paste: "",
	},
	{
		name: "the owner's own, its token was evicted", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: noToken,
		reply:  "1 6000 1 '' clock", hash: "a=1", lease: 30000, token: "6000", keep: 3600000,
		cut: "local last = call('GET', tokens)", paste: "local last = call('GET', tokens) or '7000'",
	},
	{
		name: "the owner's own, its token is no number", script: lua.Vote, args: "a 30000 3600000 1 6000",
		before: noToken + "; SET TOKEN text PX 20000",
		reply:  "!HOLDFAST", same: true,
		cut: "if not n or", paste: "if not n then n = 0 end\nif",
	},
}

// TestVoteOutOfMemory: a full master grants nothing and writes nothing, and a holder stays one.
func TestVoteOutOfMemory(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb, ctx := redistest.Start(t, redistest.Exec(p.Path)).Client(t), t.Context()
		send := whenFull(t, rdb)
		for _, r := range slices.Concat(voteRows, voteTokenRows, voteClockRows, voteLateRows) {
			if r.name == "free again after a lease has ended" {
				r.before = "SET TOKEN 5000 PX 20000" // else there is nothing to compare with: the key has expired
			}
			if strings.HasPrefix(r.reply, "1") && !strings.HasPrefix(r.name, "the owner's own") {
				r.reply, r.same = "!OOM", true
			}
			require.NoError(t, r.check(ctx, rdb, r.script, send), "vote %s", r.name)
		}
		// Control: what the order of commands is good for.
		r := find(t, voteRows, "the owner's own, with less left")
		require.ErrorContains(t, r.check(ctx, rdb, edited(t, r), send), "OOM")
	})
}

// TestVoteWithoutPermissionForPexpire: a master that may not limit a grant takes it back, and
// leaves a hold as it was.
func TestVoteWithoutPermissionForPexpire(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rdb, ctx := srv.Client(t), t.Context()
		limited := as(t, srv, "limited", "+@all -pexpire ~* "+allChannels(srv))
		free, own := find(t, voteRows, "free"), find(t, voteRows, "the owner's own, its count")
		try := func(r row, script *lua.Script) dataset {
			require.NoError(t, prepare(ctx, rdb, r.before))
			_, err := lua.Run(ctx, limited, r.call(script))
			require.Error(t, err)
			d, err := look(ctx, rdb)
			require.NoError(t, err)
			return d
		}
		left := try(free, lua.Vote)
		require.NoError(t, left.withTTL())
		require.NotContains(t, left, scriptLock)
		held := try(own, lua.Vote)
		require.NoError(t, held.withTTL())
		require.Equal(t, "1", rdb.HGet(ctx, scriptLock, "a").Val(), "nothing was changed")

		// Controls: without the clean-up it stays, and without the check before the first write the
		// count is another.
		free.cut, free.paste = "  redis.pcall('DEL', name)\n", ""
		require.Error(t, try(free, edited(t, free)).withTTL())
		own.cut, own.paste = "  call('PEXPIRE', name, lease) --",
			"  call('HSET', name, owner, ARGV[4])\n  call('PEXPIRE', name, lease) --"
		try(own, edited(t, own))
		require.Equal(t, "2", rdb.HGet(ctx, scriptLock, "a").Val())
	})
}

// TestVoteOnAReplica is refused, and says so in a way that a caller can tell. Only what another
// holds is told.
func TestVoteOnAReplica(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		pair := redistest.StartReplicated(t, 1, redistest.Exec(p.Path))
		primary, replica, ctx := pair.Primary().Client(t), pair.Replicas()[0].Client(t), t.Context()
		for before, rows := range map[string][]row{
			"": {find(t, voteRows, "free")},
			heldByA: {find(t, voteRows, "the owner's own, repeated vote"),
				find(t, voteTokenRows, "the owner's own, is told a greater one")},
		} {
			require.NoError(t, prepare(ctx, primary, before))
			pair.AwaitReplicas(ctx, t)
			was, err := look(ctx, replica)
			require.NoError(t, err)
			for _, r := range rows {
				_, err := lua.Run(ctx, replica, r.call(r.script))
				require.True(t, lua.IsError(err, "READONLY"), "%s: %v", r.name, err)
			}
			is, err := look(ctx, replica)
			require.NoError(t, err)
			require.NoError(t, was.unchanged(is))
		}
	})
}
