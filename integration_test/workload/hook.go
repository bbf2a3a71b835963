package workload

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lua"
)

// dials is the part of redis.Hook that leaves connecting as it is.
type dials struct{}

// DialHook is part of redis.Hook.
func (dials) DialHook(next redis.DialHook) redis.DialHook { return next }

// watcher is told of each command, alone or in a pipeline, before it is sent and when it is answered.
type watcher interface {
	sends(cmd redis.Cmder)
	answered(cmd redis.Cmder, err error)
}

// process is the ProcessHook of a watcher.
func process(w watcher, next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.sends(cmd)
		err := next(ctx, cmd)
		w.answered(cmd, err)
		return err
	}
}

// pipeline is its ProcessPipelineHook.
func pipeline(w watcher, next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			w.sends(cmd)
		}
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			w.answered(cmd, cmd.Err())
		}
		return err
	}
}

// firstKey is where the keys of a script begin: behind the command, the script and the number of
// keys.
const firstKey = 3

// runs reports whether a command runs a script.
func runs(args []any, script *lua.Script) bool {
	return len(args) > firstKey && (args[1] == any(script.Hash()) || args[1] == any(script.Text()))
}

// arguments are those of a script, behind its keys.
func arguments(args []any) []any {
	keys, _ := args[firstKey-1].(int)
	return args[min(firstKey+keys, len(args)):]
}

// values is what a command replied, nil if that is no list.
func values(cmd redis.Cmder) []any {
	reply, ok := cmd.(interface{ Slice() ([]any, error) })
	if !ok {
		return nil
	}
	list, _ := reply.Slice()
	return list
}
