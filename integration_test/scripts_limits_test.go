package integration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// What scripts do on a server that cannot do all that they ask.

// full makes a server refuse writes that need memory, and returns the function that ends that.
func full(ctx context.Context, t *testing.T, rdb *redis.Client) (restore func()) {
	require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	return func() { require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "0").Err()) }
}

// TestScriptsOutOfMemory: nothing is granted, queued or written; what holders need works, as do the hand-over and leaving.
func TestScriptsOutOfMemory(t *testing.T) {
	votes := slices.Concat(voteRows, voteTokenRows, voteClockRows, voteLateRows)
	grants := func(r row) bool {
		return strings.HasPrefix(r.reply, "1") && !strings.HasPrefix(r.name, "the owner's own")
	}
	shared := of(sharedRows, lua.Recount, lua.Release, lua.Leave, lua.Renew, lua.Force, lua.FairRelease, lua.Vote)
	work := slices.Concat(shared, recountRows, releaseRows, leaveRows, renewRows, stateRows, passRows, passTokenRows, forceRows,
		pick(t, acquireRows, "another's"), slices.DeleteFunc(slices.Clone(votes), grants), fairReleaseRows, fairStateRows,
		pick(t, fairPlaceRows, "no place for a try"), pick(t, fairOwnRows, "handed over, and the word of it lost"),
		pick(t, fairHandRows, "out of reach"), pick(t, fairPollRows, "nothing there", "no place"))
	refused := slices.Concat(slices.DeleteFunc(votes, func(r row) bool { return !grants(r) }),
		pick(t, acquireRows, "free", "token ahead of the clock", "free again after a lease has ended"),
		pick(t, blockRows, "free"), pick(t, fairAcquireRows, "free, try", "token ahead of the clock"),
		pick(t, fairPlaceRows, "place taken", "place kept when asked again", "behind another"),
		pick(t, fairPollRows, "places put off"), pick(t, fairMixedRows, "behind two of Redisson's"))
	// What the order of their commands is good for: a write that is allowed then comes first.
	controls := slices.Concat(
		edit(t, recountRows, "one more",
			"call('PEXPIRE', name, math.max(tonumber(ARGV[3]), call('PTTL', name)))\ncall('HSET', name, ARGV[1], ARGV[2])",
			"call('HSET', name, ARGV[1], ARGV[2])\ncall('PEXPIRE', name, ARGV[3])"),
		edit(t, leaveRows, "more than is left", "if not ends or not again then call('PEXPIRE', name, rest) end\n"+
			"if not again and type(redis.pcall('HDEL', name, '')) == 'number' then", "if not again then"),
		edit(t, forceRows, "held", "redis.pcall('HDEL', name, '')", ""),
		edit(t, passRows, "nobody listens", "call('PEXPIRE', name, math.max(call('PTTL', name), tonumber(ARGV[2])))\n"+
			"call('SET', tokens, last, 'PX', ARGV[3])",
			"call('SET', tokens, last, 'PX', ARGV[3])\ncall('PEXPIRE', name, ARGV[2])"),
		edit(t, voteRows, "the owner's own, with less left", "", ""),
		edit(t, fairReleaseRows, "held, the waiter listens", "  call('DEL', name)\nelseif",
			"  call('SET', tokens, '1')\n  call('DEL', name)\nelseif"))
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb, ctx := redistest.Start(t, redistest.Exec(p.Path)).Client(t), t.Context()
		whenFull := func(ctx context.Context, p lua.Processor, c lua.Call) (lua.Reply, error) {
			defer full(ctx, t, rdb)()
			return lua.Run(ctx, p, c)
		}
		for _, r := range work {
			require.NoError(t, r.check(ctx, rdb, r.script, whenFull), "%s %s", r.script.Name(), r.name)
		}
		for _, r := range refused {
			r.reply, r.after = "!OOM", "same"
			require.NoError(t, r.check(ctx, rdb, r.script, whenFull), "%s %s", r.script.Name(), r.name)
		}
		for _, r := range controls {
			require.ErrorContains(t, r.check(ctx, rdb, edited(t, r), whenFull), "OOM", "control: %s", r.script.Name())
		}
	})
}

// TestScriptsOnAReplica: what would write is refused, and says so in a way that a caller can tell; a look is not.
func TestScriptsOnAReplica(t *testing.T) {
	refused := slices.Concat(pick(t, recountRows, "one more"), pick(t, releaseRows, "held"), pick(t, renewRows, "held"),
		pick(t, acquireRows, "clock ahead of the token", "the owner's own, repeated call"), pick(t, passRows, "nobody listens"),
		pick(t, forceRows, "held"), pick(t, voteRows, "free", "the owner's own, repeated vote"),
		pick(t, voteTokenRows, "the owner's own, is told a greater one"),
		pick(t, fairAcquireRows, "dead head"), pick(t, fairPlaceRows, "behind another"),
		pick(t, fairOwnRows, "handed over, and the word of it lost"), pick(t, fairHandRows, "Redisson's first"),
		pick(t, fairReleaseRows, "held, the waiter is out of reach", "another's, in the queue"),
		pick(t, fairPollRows, "places put off", "free, handed to the caller itself, who missed it"),
		pick(t, acquireRows, "another's"), pick(t, besideRows, "another's"), pick(t, voteRows, "another's"),
		pick(t, rwReadRows, "another writes", "a writer waits"),
		pick(t, rwWriteRows, "another writes, and the owner does not wait", "the owner reads"),
		pick(t, semAcquireRows, "fewer are free, and it does not wait"),
		pick(t, fairMixedRows, "behind Redisson's"), pick(t, fenceRows, "a greater one", "an equal one"))
	answered := slices.Concat(pick(t, stateRows, "held"), pick(t, fairStateRows, "free, with waiters"),
		pick(t, fairPollRows, "no place"), pick(t, fenceRows, "a smaller one"))
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		pair := redistest.StartReplicated(t, 1, redistest.Exec(p.Path))
		primary, replica, ctx := pair.Primary().Client(t), pair.Replicas()[0].Client(t), t.Context()
		for _, r := range slices.Concat(refused, answered) {
			span := clock{start: primary.Time(ctx).Val().UnixMilli()}
			require.NoError(t, prepare(ctx, primary, r.given))
			pair.AwaitReplicas(ctx, t)
			before, err := look(ctx, replica)
			require.NoError(t, err)
			span.from = replica.Time(ctx).Val().UnixMicro()
			reply, err := lua.Run(ctx, replica, r.call(r.script))
			if slices.ContainsFunc(answered, func(a row) bool { return a == r }) {
				span.to = replica.Time(ctx).Val().UnixMicro()
				require.NoError(t, r.checkReply(reply, err, span), "%s %s", r.script.Name(), r.name)
				continue
			}
			require.True(t, lua.IsError(err, "READONLY"), "%s %s: %v, %v", r.script.Name(), r.name, reply, err)
			after, err := look(ctx, replica)
			require.NoError(t, err)
			require.NoError(t, before.unchanged(after), "%s %s", r.script.Name(), r.name)
			require.NoError(t, kindtest.Err(lua.Run(ctx, primary, r.call(r.script))), "control: the primary does it")
		}
		manyOnAReplica(t, pair)
		guard := fence.NewRedis(replica)
		_, err := guard.DoToken(ctx, 6000, fenceKey, "SET", "y")
		require.True(t, lua.IsError(err, "READONLY"), "%v", err)
		_, err = guard.DoToken(ctx, 4000, fenceKey, "SET", "y")
		require.ErrorIs(t, err, fence.ErrStale, "what the primary has seen is replicated")
	})
}

// TestScriptsOfALimitedUser: a missing permission is caught, so that nothing stays locked, or an error before any write.
func TestScriptsOfALimitedUser(t *testing.T) {
	silent := table(`
released, and nobody is told
	heldByA | release | 1 error | same -LOCK | local sent = redis.pcall( => local sent = redis.call(
released although others listen, and they are not told
	heldByA LISTEN(all) | pass | 0 1 error | same -LOCK | local sent = redis.pcall( => local sent = redis.call(
handed over, and the next one is not told
	heldByC WAITING(d:h1@60s)/8000s LISTEN(d) | fair_release | 1 error |
	LOCK{d:h1=1}/1s TOKEN=clock/1h ENDS(d:h1!+1s)/8000s | type(sent) == 'table' and sent.err or nil => nil
handed to Redisson's, who is not told
	heldByC WAITING(r:7@310s)/8000s | fair_release | 1 error | LOCK{r:7=0}/2s TOKEN=clock/1h |
	type(sent) == 'table' and sent.err or nil => nil
`)
	sharded := table(`
released, and nobody is told by SPUBLISH
	heldByA | release by=SPUBLISH | 1 error | same -LOCK | local sent = redis.pcall( => local sent = redis.call(
`)
	uncounted := table(`
who listens is not known
	heldByA | pass | 0 -1 | same -LOCK | redis.pcall('PUBSUB' => redis.call('PUBSUB'
`)
	endless := table(`
a grant that cannot be limited is taken back
	nothing | vote | ! | TOKEN=6000/1h | redis.pcall('DEL', name) =>
a hold stays as it was
	heldByA | vote count=2 token=5000 | ! | same |
	call('PEXPIRE', name, lease) -- => call('HSET', name, owner, ARGV[4])\n  call('PEXPIRE', name, lease) --
`)
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rdb, ctx := srv.Client(t), t.Context()
		for rule, rows := range map[string][]row{
			"-publish": silent, "resetchannels": silent[:2], "-publish -spublish": slices.Concat(silent[:2], sharded),
			"-pubsub": uncounted, "-pexpire": endless,
		} {
			if srv.Major() < 7 && rule == "resetchannels" {
				continue // there was no such permission
			}
			if srv.Major() < 7 {
				rule = strings.TrimSuffix(rule, " -spublish")
			}
			limited := as(t, srv, "limited", "+@all ~* "+allChannels(srv)+" "+rule)
			send := func(ctx context.Context, _ lua.Processor, c lua.Call) (lua.Reply, error) {
				return lua.Run(ctx, limited, c)
			}
			for _, r := range rows {
				require.NoError(t, r.check(ctx, rdb, r.script, send), "%s: %s", rule, r.name)
				require.Error(t, r.check(ctx, rdb, edited(t, r), send), "%s: control: %s", rule, r.name)
			}
			if rule == "-publish" { // control: a script that catches it nowhere says that nothing was released
				bare := strings.NewReplacer("local sent = redis.pcall(", "local sent = call(",
					"= pcall(function()", "= (function(f) return true, f() end)(function()").Replace(lua.FairRelease.Text())
				require.NoError(t, prepare(ctx, rdb, silent[3].given))
				require.Error(t, kindtest.Err(send(ctx, rdb, silent[3].call(lua.New("bare", bare, 5)))))
			}
		}
	})
}

// TestFairCrowdOfTheDead: a release asks once for each client whether it is there, not once for each of its waiters.
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

// TestScriptsAreSentByHash: the text goes out once per server, also when a pipeline brings the script.
func TestScriptsAreSentByHash(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rdb, ctx := srv.Client(t), t.Context()
		for _, send := range []sender{lua.Run, inPipeline} {
			require.NoError(t, rdb.ScriptFlush(ctx).Err())
			srv.ResetStats(t)
			for range 3 {
				require.NoError(t, kindtest.Err(send(ctx, rdb, lua.State.Call(scriptLock, scriptToken))))
			}
			calls := srv.CommandCalls(t)
			require.Equal(t, int64(1), calls["eval"])
			require.Equal(t, int64(3), calls["get"], "each ran once")
		}
	})
}

// pick are the rows of those names.
func pick(t *testing.T, rows []row, names ...string) (some []row) {
	for _, name := range names {
		some = append(some, find(t, rows, name))
	}
	return some
}

// edit is a row with another edit, unless that is empty.
func edit(t *testing.T, rows []row, name, cut, paste string) []row {
	r := find(t, rows, name)
	if cut != "" {
		r.cut, r.paste = cut, paste
	}
	return []row{r}
}

// TestScriptsForMany: the script for many holders does to each as renew does: on every server its rows hold, or fail edited.
func TestScriptsForMany(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb := redistest.Start(t, redistest.Exec(p.Path)).Client(t)
		for _, r := range slices.Concat(renewRows, of(sharedRows, lua.Renew)) {
			t.Run(r.name, func(t *testing.T) {
				ctx := t.Context()
				require.NoError(t, rdb.ScriptFlush(ctx).Err())
				require.NoError(t, r.check(ctx, rdb, r.script, amongOthers(nil)), "unknown to the server: by EVAL")
				require.NoError(t, r.check(ctx, rdb, r.script, amongOthers(nil)), "known to the server: by EVALSHA")
				text := strings.Replace(lua.RenewMany.Text(), r.cut, r.paste, 1)
				require.NotEqual(t, lua.RenewMany.Text(), text)
				require.Error(t, r.check(ctx, rdb, r.script, amongOthers(lua.New("edited", text, 0))),
					"control: the row does not see the edit")
			})
		}
	})
}

// amongOthers sends a renewal between two of free names, in the script given, if there is one, in place of renew_many.
func amongOthers(edited *lua.Script) sender {
	return func(ctx context.Context, rdb lua.Processor, c lua.Call) (lua.Reply, error) {
		free := lua.Renew.Call("free", "redisson_lock_token:{free}", "a", "30000", "3600000")
		client := rdb.(*redis.Client)
		if edited != nil {
			client = redis.NewClient(client.Options())
			defer client.Close()
			client.AddHook(inPlaceOf(lua.RenewMany, edited))
		}
		results := lua.RenewAll(ctx, client, []lua.Call{free, c, free})
		for _, i := range []int{0, 2} {
			if results[i].Err != nil {
				return lua.Reply{}, results[i].Err
			}
		}
		return results[1].Reply, results[1].Err
	}
}

// inPlaceOf sends one script where another is meant.
func inPlaceOf(meant, sent *lua.Script) redis.Hook {
	return redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		for _, cmd := range cmds {
			if args := cmd.Args(); len(args) > 1 && args[1] == meant.Hash() {
				args[0], args[1] = "eval", sent.Text()
			}
		}
		return send()
	})
}

// TestManyHaveTheirOwnErrors: a key of another type among many, on every server, is the error of one.
func TestManyHaveTheirOwnErrors(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb, ctx := redistest.Start(t, redistest.Exec(p.Path)).Client(t), t.Context()
		var calls []lua.Call
		for _, name := range []string{"a", "b", "c"} {
			require.NoError(t, rdb.HSet(ctx, name, "me", 1).Err())
			require.NoError(t, rdb.PExpire(ctx, name, 10*time.Second).Err())
			calls = append(calls, lua.Renew.Call(name, "token:{"+name+"}", "me", 60000, 3600000))
		}
		require.NoError(t, rdb.Set(ctx, "b", "text", time.Minute).Err())
		results := lua.RenewAll(ctx, rdb, calls)
		require.True(t, lua.IsError(results[1].Err, "WRONGTYPE"), "%v", results[1].Err)
		for _, i := range []int{0, 2} {
			require.NoError(t, results[i].Err)
			require.Equal(t, lua.Done, results[i].Reply.Status)
		}
		for _, name := range []string{"a", "c"} {
			require.Greater(t, rdb.PTTL(ctx, name).Val(), 30*time.Second)
		}
		require.Equal(t, "text", rdb.Get(ctx, "b").Val())
	})
}
