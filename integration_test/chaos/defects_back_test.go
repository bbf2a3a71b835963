//go:build linux

package chaos

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
)

// defects are those that controls put back where no switch does, as hooks of go-redis.
var defects = map[string]func() []redis.Hook{
	// A vote is executed however late it comes.
	"late votes": edited(lua.Vote, "then return {-2, clock} end", "then end"),
	// What is made for servers behind Sentinels publishes as in a cluster, because go-redis has one
	// type for both.
	"sharded": func() []redis.Hook { return []redis.Hook{sharded{}} },
	// A writer does not look for readers.
	"beside readers": edited(lua.RwWrite, "if rest > 0 then blocked", "if false then blocked"),
	// It is not looked how many permits are free, or only one of several comes back.
	"more permits":  edited(lua.SemAcquire, "if n <= free and (not first", "if (not first"),
	"fewer permits": edited(lua.SemRelease, "redis.pcall('INCRBY', name, n)", "redis.pcall('INCRBY', name, 1)"),
	// A count-down counts again when it is repeated.
	"counts twice": edited(lua.LatchCount, "if call('EXISTS', this) == 1 then", "if false then"),
	// Who has resigned is still named as the leader.
	"named on": func() []redis.Hook {
		return []redis.Hook{
			mutant.Hook(lua.ElectionRelease, "redis.call('DEL', KEYS[6])", ""),
			mutant.Hook(lua.ElectionLeader, "or redis.call('HEXISTS', KEYS[1], owner) == 0 then", "then"),
		}
	},
}

// edited is a defect of one script, by edits as [mutant.Hook] has them.
func edited(script *lua.Script, edits ...string) func() []redis.Hook {
	return func() []redis.Hook { return []redis.Hook{mutant.Hook(script, edits...)} }
}

// spoil puts the process's defects back into a client.
func (j *job) spoil(rdb redis.UniversalClient) {
	for _, name := range j.Without {
		if hooks, ok := defects[name]; ok && (name != "sharded" || routed(rdb)) {
			for _, h := range hooks() {
				rdb.AddHook(h)
			}
		}
	}
}

// routed reports whether a client of servers that are no cluster has the type of one.
func routed(rdb redis.UniversalClient) bool {
	c, ok := rdb.(*redis.ClusterClient)
	return ok && c.Options().ClusterSlots != nil
}

// sharded sends SPUBLISH where scripts are told to publish.
type sharded struct{ redis.Hook }

func (sharded) DialHook(next redis.DialHook) redis.DialHook { return next }

func (sharded) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		shard(cmd)
		return next(ctx, cmd)
	}
}

func (sharded) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			shard(cmd)
		}
		return next(ctx, cmds)
	}
}

func shard(cmd redis.Cmder) {
	for i, arg := range cmd.Args() {
		if arg == any("PUBLISH") {
			cmd.Args()[i] = "SPUBLISH"
		}
	}
}
