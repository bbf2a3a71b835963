package workload

import (
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// watcher is told of each command, alone or in a pipeline, before it is sent and when it is answered.
type watcher interface {
	sends(cmd redis.Cmder)
	answered(cmd redis.Cmder, err error)
}

// watch is the hook of go-redis that tells it.
func watch(w watcher) redis.Hook {
	return redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		for _, cmd := range cmds {
			w.sends(cmd)
		}
		err := send()
		for _, cmd := range cmds {
			if len(cmds) == 1 {
				w.answered(cmd, err)
			} else {
				w.answered(cmd, cmd.Err())
			}
		}
		return err
	})
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
