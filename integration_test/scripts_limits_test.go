package integration_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// What scripts do on a server that cannot do all that they ask.

// full makes a server refuse writes that need memory, and returns the function that ends that.
func full(ctx context.Context, t *testing.T, rdb *redis.Client) (restore func()) {
	t.Helper()
	require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	return func() { require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "0").Err()) }
}

// whenFull runs the call of a row whose preconditions were made while there was memory.
func whenFull(t *testing.T, rdb *redis.Client) sender {
	return func(ctx context.Context, p lua.Processor, c lua.Call) (lua.Reply, error) {
		defer full(ctx, t, rdb)()
		return lua.Run(ctx, p, c)
	}
}

// TestScriptsOutOfMemory: nothing is granted and nothing written; what holders need works as ever.
func TestScriptsOutOfMemory(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb, ctx := redistest.Start(t, redistest.Exec(p.Path)).Client(t), t.Context()
		send := whenFull(t, rdb)
		for _, name := range []string{"free", "token ahead of the clock", "free again after a lease has ended"} {
			r := find(t, acquireRows, name)
			r.reply, r.after = "!OOM", "same"
			require.NoError(t, r.check(ctx, rdb, r.script, send), "acquire %s", name)
		}
		r := find(t, blockRows, "free")
		r.reply, r.after = "!OOM", "same"
		require.NoError(t, r.check(ctx, rdb, r.script, send), "acquire with a block")
		for _, rows := range [][]row{
			recountRows, releaseRows, leaveRows, renewRows, stateRows, passRows, passTokenRows, forceRows,
		} {
			for _, r := range rows {
				require.NoError(t, r.check(ctx, rdb, r.script, send), "%s %s", r.script.Name(), r.name)
			}
		}
		r = find(t, acquireRows, "another's")
		require.NoError(t, r.check(ctx, rdb, r.script, send), "who has the lock is told all the same")

		// Control: what the order of commands in recount.lua is good for.
		r = find(t, recountRows, "one more")
		r.cut = "call('PEXPIRE', name, math.max(tonumber(ARGV[3]), call('PTTL', name)))\ncall('HSET', name, ARGV[1], ARGV[2])"
		r.paste = "call('HSET', name, ARGV[1], ARGV[2])\ncall('PEXPIRE', name, ARGV[3])"
		require.ErrorContains(t, r.check(ctx, rdb, edited(t, r), send), "OOM")
		// And in leave.lua.
		r = find(t, leaveRows, "more than is left")
		r.cut = "if not ends or not again then call('PEXPIRE', name, rest) end\n" +
			"if not again and type(redis.pcall('HDEL', name, '')) == 'number' then"
		r.paste = "if not again then"
		require.ErrorContains(t, r.check(ctx, rdb, edited(t, r), send), "OOM")
		// And in force.lua.
		r = find(t, forceRows, "held")
		r.cut, r.paste = "redis.pcall('HDEL', name, '')", ""
		require.ErrorContains(t, r.check(ctx, rdb, edited(t, r), send), "OOM")
		// And in pass.lua.
		r = find(t, passRows, "nobody listens")
		r.cut = "call('PEXPIRE', name, math.max(call('PTTL', name), tonumber(ARGV[2])))\ncall('SET', tokens, last, 'PX', ARGV[3])"
		r.paste = "call('SET', tokens, last, 'PX', ARGV[3])\ncall('PEXPIRE', name, ARGV[2])"
		require.ErrorContains(t, r.check(ctx, rdb, edited(t, r), send), "OOM")
	})
}

// TestScriptsOnAReplica: what would write is refused and says so in a way that a caller can tell; a
// look is not.
func TestScriptsOnAReplica(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		pair := redistest.StartReplicated(t, 1, redistest.Exec(p.Path))
		primary, replica, ctx := pair.Primary().Client(t), pair.Replicas()[0].Client(t), t.Context()
		require.NoError(t, prepare(ctx, primary, "heldByA"))
		pair.AwaitReplicas(ctx, t)
		before, err := look(ctx, replica)
		require.NoError(t, err)
		require.Len(t, before, 2)
		for _, r := range []row{
			find(t, recountRows, "one more"), find(t, releaseRows, "held"), find(t, renewRows, "held"),
			find(t, acquireRows, "the owner's own, repeated call"), find(t, passRows, "nobody listens"),
			find(t, forceRows, "held"),
		} {
			reply, err := lua.Run(ctx, replica, r.call(r.script))
			require.True(t, lua.IsError(err, "READONLY"), "%s: %v, %v", r.script.Name(), reply, err)
			_, err = lua.Run(ctx, primary, find(t, stateRows, "held").call(lua.State))
			require.NoError(t, err)
		}
		r := find(t, stateRows, "held")
		reply, err := lua.Run(ctx, replica, r.call(r.script))
		require.NoError(t, err)
		require.Equal(t, "a", reply.Text(0))
		after, err := look(ctx, replica)
		require.NoError(t, err)
		require.NoError(t, before.unchanged(after))

		require.NoError(t, prepare(ctx, primary, "TOKEN=5000/20s"))
		pair.AwaitReplicas(ctx, t)
		r = find(t, acquireRows, "free")
		_, err = lua.Run(ctx, replica, r.call(r.script))
		require.True(t, lua.IsError(err, "READONLY"), "acquire: %v", err)
		require.Equal(t, int64(1), replica.DBSize(ctx).Val(), "nothing but the token")
	})
}

// TestReleaseIsAnnouncedOnce: one message for the call that released, none for one that found
// nothing to release.
func TestReleaseIsAnnouncedOnce(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rdb, ctx := srv.Client(t), t.Context()
		commands := []string{"PUBLISH"}
		if srv.Major() >= 7 {
			commands = append(commands, "SPUBLISH")
		}
		for _, command := range commands {
			subscribe := rdb.Subscribe
			if command == "SPUBLISH" {
				subscribe = rdb.SSubscribe
			}
			sub := subscribe(ctx, scriptChannel)
			_, err := sub.Receive(ctx)
			require.NoError(t, err)
			r := find(t, releaseRows, "held")
			r.args = "release by=" + command
			require.NoError(t, r.check(ctx, rdb, r.script, lua.Run))
			r.given, r.reply, r.after = "nothing", "-1", "nothing"
			require.NoError(t, r.check(ctx, rdb, r.script, lua.Run))
			require.NoError(t, rdb.Do(ctx, command, scriptChannel, "last").Err())
			for _, want := range []string{"0", "last"} {
				msg, err := sub.ReceiveMessage(ctx)
				require.NoError(t, err)
				require.Equal(t, want, msg.Payload, "a second announcement would stand between the two")
			}
			require.NoError(t, sub.Close())
		}
	})
}

// TestRefusedAnnouncement: a user without the channel, or before there were permissions for
// channels without PUBLISH, releases all the same and is told that nobody heard of it.
func TestRefusedAnnouncement(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rdb, ctx := srv.Client(t), t.Context()
		refusals := []string{"-publish"}
		if srv.Major() >= 7 {
			refusals = append(refusals, "resetchannels", "-publish -spublish")
		}
		for _, refusal := range refusals {
			limited := as(t, srv, "limited", "+@all ~* "+allChannels(srv)+" "+refusal)
			for _, command := range []string{"PUBLISH", "SPUBLISH"} {
				if refusal == "-publish" && command == "SPUBLISH" && srv.Major() >= 7 {
					continue // is permitted
				}
				require.NoError(t, prepare(ctx, rdb, "heldByA"))
				reply, err := lua.Run(ctx, limited, lua.Release.Call(scriptLock, scriptChannel, "a", command))
				require.NoError(t, err)
				require.Equal(t, lua.Done, reply.Status)
				require.NotEmpty(t, reply.Text(0), "%s, %s", refusal, command)
				require.Zero(t, rdb.Exists(ctx, scriptLock).Val())
			}
		}
		// Control: a script that does not catch the refusal leaves the lock locked, or says that
		// nothing was released.
		r := find(t, releaseRows, "held")
		r.cut, r.paste = "local sent = redis.pcall(", "local sent = redis.call("
		require.NoError(t, prepare(ctx, rdb, "heldByA"))
		_, err := lua.Run(ctx, as(t, srv, "limited", "+@all ~* "+allChannels(srv)+" "+refusals[0]),
			r.call(edited(t, r)))
		require.Error(t, err)
	})
}

// TestScriptsAreSentByHash: the text goes out once per server, also when a pipeline brings the
// script.
func TestScriptsAreSentByHash(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rdb, ctx := srv.Client(t), t.Context()
		for _, send := range []sender{lua.Run, inPipeline} {
			require.NoError(t, rdb.ScriptFlush(ctx).Err())
			srv.ResetStats(t)
			for range 3 {
				_, err := send(ctx, rdb, lua.State.Call(scriptLock, scriptToken))
				require.NoError(t, err)
			}
			calls := srv.CommandCalls(t)
			require.Equal(t, int64(1), calls["eval"])
			require.Equal(t, int64(3), calls["get"], "each ran once")
		}
	})
}
