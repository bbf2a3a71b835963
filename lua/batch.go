package lua

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/pipeline"
)

// Pipeliner is the part of a go-redis client that sends several commands in one round trip.
type Pipeliner interface {
	Pipeline() redis.Pipeliner
}

// RunAll sends calls in one pipeline, and those whose script the server did not know in a second
// one. Each has its own result. Unlike a transaction the calls are independent of each other; in a
// cluster they go to several servers.
func RunAll(ctx context.Context, rdb Pipeliner, calls []Call) []Result {
	results := make([]Result, len(calls))
	all := make([]int, len(calls))
	for i := range calls {
		all[i] = i
	}
	runSome(ctx, rdb, all, results, func(i int) *command { return calls[i].command(ctx) })

	var unknown []int
	for i := range results {
		if results[i].Err != nil && redis.HasErrorPrefix(results[i].Err, "NOSCRIPT") {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) > 0 {
		runSome(ctx, rdb, unknown, results, func(i int) *command { return newCommand(ctx, calls[i].withText()) })
	}
	return results
}

func runSome(ctx context.Context, rdb Pipeliner, which []int, results []Result, build func(int) *command) {
	pipe := rdb.Pipeline()
	cmds := make([]*command, len(which))
	for j, i := range which {
		cmds[j] = build(i)
		_ = pipe.Process(ctx, cmds[j])
	}
	failure := exec(ctx, pipe)
	for j, i := range which {
		if results[i].Err = failure; failure == nil {
			results[i].Reply, results[i].Err = parse(cmds[j].Result())
		}
	}
}

// exec runs a pipeline. Its error is a panic only: each command keeps its own.
func exec(ctx context.Context, pipe redis.Pipeliner) (failure error) {
	defer panics.Into(&failure)
	pipeline.Exec(ctx, pipe)
	return nil
}

// RunBefore is [Run] for a call that is followed by another command, in one round trip and on one
// connection: so the server executes that after the call. build makes the command anew for each
// attempt.
func RunBefore(ctx context.Context, rdb Pipeliner, c Call, build func() redis.Cmder) (Reply, error) {
	attempt := func(cmd *command) (Reply, error) {
		pipe := rdb.Pipeline()
		_ = pipe.Process(ctx, cmd)
		_ = pipe.Process(ctx, build())
		if err := exec(ctx, pipe); err != nil {
			return Reply{}, err
		}
		return cmd.reply()
	}
	reply, err := attempt(c.command(ctx))
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = attempt(newCommand(ctx, c.withText()))
	}
	return reply, err
}
