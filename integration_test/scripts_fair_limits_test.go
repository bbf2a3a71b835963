package integration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// TestFairScriptsOutOfMemory: nothing is granted and no place taken; a release goes through, with
// the hand-over, and so does leaving.
func TestFairScriptsOutOfMemory(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb, ctx := redistest.Start(t, redistest.Exec(p.Path)).Client(t), t.Context()
		send := whenFull(t, rdb)
		for _, r := range slices.Concat(fairReleaseRows, fairStateRows, []row{
			find(t, fairPlaceRows, "no place for a try"),
			find(t, fairOwnRows, "handed over, and the word of it lost"), find(t, fairHandRows, "out of reach"),
			find(t, fairPollRows, "nothing there"), find(t, fairPollRows, "no place"),
		}) {
			require.NoError(t, r.check(ctx, rdb, r.script, send), "%s %s", r.script.Name(), r.name)
		}
		for _, r := range []row{
			find(t, fairAcquireRows, "free, try"), find(t, fairAcquireRows, "token ahead of the clock"),
			find(t, fairPlaceRows, "place taken"), find(t, fairPlaceRows, "place kept when asked again"),
			find(t, fairPlaceRows, "behind another"),
			find(t, fairPollRows, "places put off"), find(t, fairMixedRows, "behind two of Redisson's"),
		} {
			r.reply, r.after = "!OOM", "same"
			require.NoError(t, r.check(ctx, rdb, r.script, send), "%s %s", r.script.Name(), r.name)
		}

		// Control: a release that asks for memory before its first write.
		r := find(t, fairReleaseRows, "held, the waiter listens")
		r.cut, r.paste = "  call('DEL', name)\nelseif", "  call('SET', tokens, '1')\n  call('DEL', name)\nelseif"
		require.ErrorContains(t, r.check(ctx, rdb, edited(t, r), send), "OOM")
	})
}

// TestFairScriptsOnAReplica: what would write is refused and says so in a way that a caller can
// tell; a look is not.
func TestFairScriptsOnAReplica(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		pair := redistest.StartReplicated(t, 1, redistest.Exec(p.Path))
		primary, replica, ctx := pair.Primary().Client(t), pair.Replicas()[0].Client(t), t.Context()
		for _, r := range []row{
			find(t, fairAcquireRows, "dead head"), find(t, fairPlaceRows, "behind another"),
			find(t, fairOwnRows, "handed over, and the word of it lost"), find(t, fairHandRows, "Redisson's first"),
			find(t, fairReleaseRows, "held, the waiter is out of reach"),
			find(t, fairReleaseRows, "another's, in the queue"),
			find(t, fairPollRows, "places put off"),
			find(t, fairPollRows, "free, handed to the caller itself, who missed it"),
			find(t, fairMixedRows, "behind Redisson's"),
		} {
			require.NoError(t, prepare(ctx, primary, r.given))
			pair.AwaitReplicas(ctx, t)
			before, err := look(ctx, replica)
			require.NoError(t, err)
			require.NotEmpty(t, before)
			reply, err := lua.Run(ctx, replica, r.call(r.script))
			require.True(t, lua.IsError(err, "READONLY"), "%s %s: %v, %v", r.script.Name(), r.name, reply, err)
			after, err := look(ctx, replica)
			require.NoError(t, err)
			require.NoError(t, before.unchanged(after), "%s %s", r.script.Name(), r.name)
			_, err = lua.Run(ctx, primary, r.call(r.script))
			require.NoError(t, err, "control: the primary does it")
		}
		for _, r := range []row{find(t, fairStateRows, "free, with waiters"), find(t, fairPollRows, "no place")} {
			require.NoError(t, prepare(ctx, primary, r.given))
			pair.AwaitReplicas(ctx, t)
			_, err := lua.Run(ctx, replica, r.call(r.script))
			require.NoError(t, err, "%s %s", r.script.Name(), r.name)
		}
	})
}

// TestFairShardedChannels: with SPUBLISH a listener on the sharded channel is reached, and one who
// is not there is passed over; a server that does not know SPUBLISH cannot tell, and takes it that
// everybody is there.
func TestFairShardedChannels(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rdb, ctx := srv.Client(t), t.Context()
		subscribe, sharded := rdb.SSubscribe, srv.Major() >= 7
		if !sharded {
			subscribe = rdb.Subscribe
		}
		sub := subscribe(ctx, scriptChannel+":e")
		defer sub.Close()
		_, err := sub.Receive(ctx)
		require.NoError(t, err)
		release := lua.FairRelease.Call(scriptLock, scriptToken, scriptQueue, scriptEnds, scriptChannel,
			"c:h1", "SPUBLISH", 60000, 3600000)
		first, told := "d:h1", false
		if sharded {
			first, told = "e:h1", true
		}
		for range 2 { // the second time the script is known
			require.NoError(t, prepare(ctx, rdb, "heldByC WAITING(d:h1@60s e:h1@60s)/8000s"))
			reply, err := lua.Run(ctx, rdb, release)
			require.NoError(t, err)
			require.Equal(t, lua.Done, reply.Status)
			require.Empty(t, reply.Text(0))
			require.Equal(t, map[string]string{first: "1"}, rdb.HGetAll(ctx, scriptLock).Val())
			if told {
				requireGrant(t, sub, rdb.Get(ctx, scriptToken).Val())
			}
		}
		require.NoError(t, prepare(ctx, rdb, "heldByC WAITING(e:h1@60s)/8000s"))
		_, err = lua.Run(ctx, rdb, release)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"e:h1": "1"}, rdb.HGetAll(ctx, scriptLock).Val())
		requireGrant(t, sub, rdb.Get(ctx, scriptToken).Val())
	})
}

// requireGrant receives the message of a grant to e:h1 for a minute.
func requireGrant(t *testing.T, sub *redis.PubSub, token string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	msg, err := sub.ReceiveMessage(ctx)
	require.NoError(t, err)
	fields := strings.Split(msg.Payload, " ")
	require.Len(t, fields, 4)
	require.Equal(t, []string{"h1", token, "60000"}, []string{fields[0], fields[1], fields[3]})
}

// TestFairRefusedMessage: a user who may not publish releases all the same, the next one has the
// lock, and the reply says that nobody was told.
func TestFairRefusedMessage(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rdb, ctx := srv.Client(t), t.Context()
		limited := as(t, srv, "limited", "+@all ~* "+allChannels(srv)+" -publish")
		r := row{script: lua.FairRelease, args: "fair_release"}
		sub := rdb.Subscribe(ctx, scriptChannel+":d")
		defer sub.Close()
		_, err := sub.Receive(ctx)
		require.NoError(t, err)
		for waiter, holds := range map[string]map[string]string{"d:h1@60s": {"d:h1": "1"}, "r:7@310s": {"r:7": "0"}} {
			require.NoError(t, prepare(ctx, rdb, "heldByC WAITING("+waiter+")/8000s"))
			reply, err := lua.Run(ctx, limited, r.call(r.script))
			require.NoError(t, err)
			require.Equal(t, lua.Done, reply.Status)
			require.NotEmpty(t, reply.Text(0))
			require.Equal(t, holds, rdb.HGetAll(ctx, scriptLock).Val())
			now, err := look(ctx, rdb)
			require.NoError(t, err)
			require.NoError(t, now.withTTL())
		}
		// Control: a script that catches it nowhere says that nothing was released.
		bare := strings.NewReplacer("local sent = redis.pcall(", "local sent = call(",
			"= pcall(function()", "= (function(f) return true, f() end)(function()").Replace(r.script.Text())
		require.NoError(t, prepare(ctx, rdb, "heldByC WAITING(d:h1@60s)/8000s"))
		_, err = lua.Run(ctx, limited, r.call(lua.New("bare", bare, 5)))
		require.Error(t, err)
	})
}

// TestFairCrowdOfTheDead: a release asks once for each client whether it is there, not once for
// each of its waiters.
func TestFairCrowdOfTheDead(t *testing.T) {
	srv := redistest.Start(t)
	rdb, ctx := srv.Client(t), t.Context()
	var dead []string
	for i := range 100 {
		dead = append(dead, fmt.Sprintf("d:h%d@60s", i), fmt.Sprintf("e:h%d@60s", i))
	}
	asked := func(script *lua.Script) int64 {
		require.NoError(t, prepare(ctx, rdb, "heldByC WAITING("+strings.Join(dead, " ")+")/8000s"))
		srv.ResetStats(t)
		r := row{script: lua.FairRelease, args: "fair_release"}
		reply, err := lua.Run(ctx, rdb, r.call(script))
		require.NoError(t, err)
		require.Equal(t, lua.Done, reply.Status)
		calls := srv.CommandCalls(t)
		return calls["publish"] + calls["pubsub"] + calls["pubsub|numsub"]
	}
	require.Equal(t, int64(2), asked(lua.FairRelease))
	r := row{script: lua.FairRelease, args: "fair_release", cut: "if deaf[id] == nil then", paste: "if true then"}
	require.Equal(t, int64(201), asked(edited(t, r)), "control")
}
