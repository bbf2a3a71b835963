package integration_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// TestScriptsForMany: what the script for many holders does for one of them is what renew does, on
// every server: every row of renew holds, and fails with its edit.
func TestScriptsForMany(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb := redistest.Start(t, redistest.Exec(p.Path)).Client(t)
		for _, r := range renewRows {
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

// amongOthers sends a renewal between two of names that nobody holds, in a script of its own in
// place of renew_many if one is given.
func amongOthers(edited *lua.Script) sender {
	return func(ctx context.Context, rdb lua.Processor, c lua.Call) (lua.Reply, error) {
		free := lua.Renew.Call("free", "redisson_lock_token:{free}", "a", "30000", "3600000")
		client := rdb.(*redis.Client)
		if edited != nil {
			client = redis.NewClient(client.Options())
			defer client.Close()
			client.AddHook(inPlaceOf{lua.RenewMany, edited})
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
type inPlaceOf struct{ meant, sent *lua.Script }

func (inPlaceOf) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (inPlaceOf) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h inPlaceOf) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if args := cmd.Args(); len(args) > 1 && args[1] == h.meant.Hash() {
				args[0], args[1] = "eval", h.sent.Text()
			}
		}
		return next(ctx, cmds)
	}
}

// TestManyHaveTheirOwnErrors: a key of another type among many, on every server, is the error of
// one.
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
