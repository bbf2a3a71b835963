package lua

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Pipeliner is the part of a go-redis client that sends several commands in one round trip.
type Pipeliner interface {
	Pipeline() redis.Pipeliner
}

// RunAll sends calls in one pipeline, and those whose script the server did not know in a second one. Each has its own
// result. Unlike a transaction the calls are independent of each other; in a cluster they go to several servers.
func RunAll(ctx context.Context, rdb Pipeliner, calls []Call) []Result {
	results := make([]Result, len(calls))
	all := make([]int, len(calls))
	for i := range calls {
		all[i] = i
	}
	runSome(ctx, rdb, all, results, func(i int) []any { return calls[i].args })

	var unknown []int
	for i := range results {
		if results[i].Err != nil && redis.HasErrorPrefix(results[i].Err, "NOSCRIPT") {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) > 0 {
		runSome(ctx, rdb, unknown, results, func(i int) []any { return calls[i].withText() })
	}
	return results
}

func runSome(ctx context.Context, rdb Pipeliner, which []int, results []Result, args func(int) []any) {
	pipe := rdb.Pipeline()
	cmds := make([]command, len(which))
	for j, i := range which {
		cmds[j] = command{redis.NewCmd(ctx, args(i)...)}
		_ = pipe.Process(ctx, cmds[j])
	}
	_, _ = pipe.Exec(ctx) // each command keeps its own error
	for j, i := range which {
		results[i].Reply, results[i].Err = parse(cmds[j].Result())
	}
}
