package integration_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

const noToken = "HSET LOCK a 1; PEXPIRE LOCK 10000"

// ARGV: owner, lease, time to live of the token's key, command to announce, how many tokens.
var passRows = []row{
	{
		name: "nobody listens", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16", before: heldByA,
		reply: "1 clock last:16", hash: "a=1", lease: 30000, token: "last", keep: 3600000,
		cut: "if heard ~= 0 then", paste: "if true then",
	},
	{
		name: "nobody listens, the lease is renewed", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16",
		before: heldByA,
		reply:  "1 clock last:16", hash: "a=1", lease: 30000, token: "last", keep: 3600000,
		cut: "math.max(call('PTTL', name), tonumber(ARGV[2]))", paste: "call('PTTL', name)",
	},
	{
		name: "a lease shorter than what is left", script: lua.Pass, args: "a 1000 3600000 PUBLISH 16", before: heldByA,
		reply: "1 clock last:16", hash: "a=1", lease: 10000, token: "last", keep: 3600000,
		cut: "math.max(call('PTTL', name), tonumber(ARGV[2]))", paste: "ARGV[2]",
	},
	{
		name: "without a time to live", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16",
		before: "HSET LOCK a 1; SET TOKEN 5000",
		reply:  "1 clock last:16", hash: "a=1", lease: 30000, token: "last", keep: 3600000,
		cut: "call('PEXPIRE', name, math.max(call('PTTL', name), tonumber(ARGV[2])))", paste: "",
	},
	{
		name: "others listen: released", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16", before: heldByA,
		reply: "0 1", token: "5000", keep: 20000, fair: fair{listen: "all", told: "all:0"},
		cut: "  call('DEL', name)\n", paste: "",
	},
	{
		name: "others listen: announced", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16", before: heldByA,
		reply: "0 1", token: "5000", keep: 20000, fair: fair{listen: "all", told: "all:0"},
		cut: "local sent = redis.pcall(command, to, text)", paste: "local sent = 1",
	},
	{
		name: "others listen, two of them", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16", before: heldByA,
		reply: "0 2", token: "5000", keep: 20000, fair: fair{listen: "all all", told: "all:0 all:0"},
		cut: "counted[2] or -1", paste: "counted[2] and 1 or -1",
	},
	{
		name: "others listen on another channel", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16", before: heldByA,
		reply: "1 clock last:16", hash: "a=1", lease: 30000, token: "last", keep: 3600000, fair: fair{listen: "d"},
		cut: "or 'SHARDNUMSUB', channel)", paste: "or 'SHARDNUMSUB', channel .. ':d')",
	},
	{
		name: "free", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16", before: "SET TOKEN 5000 PX 20000",
		reply: "-1", same: true, fair: fair{listen: "all"},
		cut: "if not held then return {-1} end", paste: "",
	},
	{
		name: "free, nobody listens", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16",
		before: "SET TOKEN 5000 PX 20000",
		reply:  "-1", same: true,
		cut: "if not held then return {-1} end", paste: "",
	},
	{
		name: "another's", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16", before: heldByB,
		reply: "-1", same: true, fair: fair{listen: "all"},
		cut: "call('HEXISTS', name, ARGV[1]) == 1", paste: "true",
	},
	{
		name: "another's, nobody listens", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16", before: heldByB,
		reply: "-1", same: true,
		cut: "call('HEXISTS', name, ARGV[1]) == 1", paste: "true",
	},
	{
		name: "key of another type", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16", before: notALock,
		reply: "!WRONGTYPE", same: true, fair: fair{listen: "all"},
		cut: "local held = call", paste: "call('DEL', name)\nlocal held = call",
	},
}

// What becomes of the token.
var passTokenRows = []row{
	{
		name: "no token known", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16", before: noToken,
		reply: "1 clock last:16", hash: "a=1", lease: 30000, token: "last", keep: 3600000,
		cut: "if last then\n", paste: "last = last or ''\nif last then\n",
	},
	{
		name: "a block of one", script: lua.Pass, args: "a 30000 3600000 PUBLISH 1", before: heldByA,
		reply: "1 clock last:1", hash: "a=1", lease: 30000, token: "last", keep: 3600000,
		cut: "first + block - 1", paste: "first + block",
	},
	{
		name: "the key has the last of the block", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16",
		before: heldByA,
		reply:  "1 clock last:16", hash: "a=1", lease: 30000, token: "last", keep: 3600000,
		cut:   "call('SET', tokens, last, 'PX', ARGV[3])",
		paste: "call('SET', tokens, string.format('%.0f', first), 'PX', ARGV[3])",
	},
	{
		name: "the clock is behind the last token: one", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16",
		before: noToken + "; SET TOKEN 9000000000000000 PX 20000",
		reply:  "1 9000000000000001 9000000000000001", hash: "a=1", lease: 30000, token: "9000000000000001",
		keep: 3600000,
		cut:  "first, block = n + 1, 1", paste: "first = n + 1",
	},
	{
		name: "the clock is behind the last token: a greater one", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16",
		before: noToken + "; SET TOKEN 9000000000000000 PX 20000",
		reply:  "1 9000000000000001 9000000000000001", hash: "a=1", lease: 30000, token: "9000000000000001",
		keep: 3600000,
		cut:  "first, block = n + 1, 1", paste: "first, block = n, 1",
	},
	{
		name: "greatest token", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16",
		before: noToken + "; SET TOKEN 9007199254740990 PX 20000",
		reply:  "1 9007199254740991 9007199254740991", hash: "a=1", lease: 30000, token: "9007199254740991",
		keep: 3600000,
		cut:  "return {1, string.format('%.0f', first)", paste: "return {1, tostring(first)",
	},
	{
		name: "token that has no next one", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16",
		before: noToken + "; SET TOKEN 9007199254740991 PX 20000", reply: "!HOLDFAST", same: true,
		cut: "n >= 9007199254740991", paste: "n > 9007199254740991",
	},
	{
		name: "token that is no number", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16",
		before: noToken + "; SET TOKEN text PX 20000", reply: "!HOLDFAST", same: true,
		cut: "if not n or", paste: "if not n then n = 0 end\n  if",
	},
	{
		name: "negative token", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16",
		before: noToken + "; SET TOKEN -1 PX 20000", reply: "!HOLDFAST", same: true,
		cut: "local n = not string.find(last, '%D') and", paste: "local n =",
	},
	{
		name: "token that is no number, others listen: that does not keep it from being released", script: lua.Pass,
		args: "a 30000 3600000 PUBLISH 16", before: noToken + "; SET TOKEN text PX 20000",
		reply: "0 1", token: "text", keep: 20000, fair: fair{listen: "all", told: "all:0"},
		cut: "if heard ~= 0 then", paste: "if false then",
	},
	{
		name: "token of another type", script: lua.Pass, args: "a 30000 3600000 PUBLISH 16",
		before: noToken + "; RPUSH TOKEN x; PEXPIRE TOKEN 20000", reply: "!WRONGTYPE", same: true,
		cut: "local last, time = call", paste: "call('PEXPIRE', name, 100000)\nlocal last, time = call",
	},
}

// TestPassRepeated: a second attempt whose first one's answer was lost gives tokens that are
// greater than the first one's; and if the first one released the lock, it finds that.
func TestPassRepeated(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb, ctx := redistest.Start(t, redistest.Exec(p.Path)).Client(t), t.Context()
		require.NoError(t, prepare(ctx, rdb, heldByA))
		// a second's worth: the clock does not catch up
		pass := row{script: lua.Pass, args: "a 30000 3600000 PUBLISH 1000000"}
		first, err := lua.Run(ctx, rdb, pass.call(pass.script))
		require.NoError(t, err)
		second, err := lua.Run(ctx, rdb, pass.call(pass.script))
		require.NoError(t, err)
		require.Equal(t, lua.Done, second.Status)
		require.Equal(t, plus(first.Text(1), "2"), second.Text(0), "the next one")
		require.Equal(t, second.Text(0), second.Text(1), "and no block, for the clock is behind")

		sub := rdb.Subscribe(ctx, scriptChannel)
		defer sub.Close()
		_, err = sub.Receive(ctx)
		require.NoError(t, err)
		for _, want := range []lua.Status{lua.Denied, lua.Gone} {
			reply, err := lua.Run(ctx, rdb, pass.call(pass.script))
			require.NoError(t, err)
			require.Equal(t, want, reply.Status)
		}
	})
}

// TestPassSharded: where releases are announced by SPUBLISH, those are counted who listen that way.
// A server that does not know that, or a user who may not ask, cannot tell, and the lock is
// released.
func TestPassSharded(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rdb, ctx := srv.Client(t), t.Context()
		pass := row{script: lua.Pass, args: "a 30000 3600000 SPUBLISH 16"}
		run := func(rdb lua.Processor, script *lua.Script) lua.Reply {
			require.NoError(t, prepare(ctx, srv.Client(t), heldByA))
			reply, err := lua.Run(ctx, rdb, pass.call(script))
			require.NoError(t, err)
			held := srv.Client(t).Exists(ctx, scriptLock).Val() == 1
			require.Equal(t, held, reply.Status == lua.Done)
			return reply
		}
		if srv.Major() < 7 {
			sub := rdb.Subscribe(ctx, scriptChannel)
			defer sub.Close()
			_, err := sub.Receive(ctx)
			require.NoError(t, err)
			reply := run(rdb, lua.Pass)
			require.Equal(t, lua.Denied, reply.Status)
			require.EqualValues(t, -1, reply.Int(0))
			require.Empty(t, reply.Text(1))
			_, err = sub.ReceiveMessage(ctx)
			require.NoError(t, err, "announced by PUBLISH")
			pass.cut, pass.paste = "counted[2] or -1", "counted[2] or 0"
			require.Equal(t, lua.Done, run(rdb, edited(t, pass)).Status, "control: kept although others listen")
			return
		}
		require.Equal(t, lua.Done, run(rdb, lua.Pass).Status)
		sub := rdb.SSubscribe(ctx, scriptChannel)
		defer sub.Close()
		_, err := sub.Receive(ctx)
		require.NoError(t, err)
		reply := run(rdb, lua.Pass)
		require.Equal(t, lua.Denied, reply.Status)
		require.EqualValues(t, 1, reply.Int(0))
		_, err = sub.ReceiveMessage(ctx)
		require.NoError(t, err, "announced by SPUBLISH")
		pass.cut, pass.paste = "ARGV[4] == 'PUBLISH' and 'NUMSUB' or 'SHARDNUMSUB'", "'NUMSUB'"
		require.Equal(t, lua.Done, run(rdb, edited(t, pass)).Status, "control: who listens is not counted")
	})
}

// TestPassWithoutPermission: who may not count listeners releases; who may not announce releases
// all the same and is told.
func TestPassWithoutPermission(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rdb, ctx := srv.Client(t), t.Context()
		pass := row{script: lua.Pass, args: "a 30000 3600000 PUBLISH 16"}
		limited := as(t, srv, "limited", "+@all ~* "+allChannels(srv)+" -pubsub")
		require.NoError(t, prepare(ctx, rdb, heldByA))
		reply, err := lua.Run(ctx, limited, pass.call(lua.Pass))
		require.NoError(t, err)
		require.Equal(t, lua.Denied, reply.Status)
		require.EqualValues(t, -1, reply.Int(0))
		require.Empty(t, reply.Text(1))
		require.Zero(t, rdb.Exists(ctx, scriptLock).Val())
		pass.cut, pass.paste = "redis.pcall('PUBSUB'", "redis.call('PUBSUB'"
		require.NoError(t, prepare(ctx, rdb, heldByA))
		_, err = lua.Run(ctx, limited, pass.call(edited(t, pass)))
		require.True(t, lua.IsDenied(err), "control: %v", err)

		sub := rdb.Subscribe(ctx, scriptChannel)
		defer sub.Close()
		_, err = sub.Receive(ctx)
		require.NoError(t, err)
		mute := as(t, srv, "mute", "+@all ~* "+allChannels(srv)+" -publish")
		require.NoError(t, prepare(ctx, rdb, heldByA))
		reply, err = lua.Run(ctx, mute, pass.call(lua.Pass))
		require.NoError(t, err)
		require.Equal(t, lua.Denied, reply.Status)
		require.EqualValues(t, 1, reply.Int(0))
		require.NotEmpty(t, reply.Text(1))
		require.Zero(t, rdb.Exists(ctx, scriptLock).Val())
		pass.cut, pass.paste = "local sent = redis.pcall(", "local sent = redis.call("
		require.NoError(t, prepare(ctx, rdb, heldByA))
		_, err = lua.Run(ctx, mute, pass.call(edited(t, pass)))
		require.Error(t, err, "control: a refusal that is not caught")
	})
}
