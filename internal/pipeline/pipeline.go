// Package pipeline runs pipelines of go-redis so that each command ends with a reply or an error of
// its own.
//
// Not promised: what a hook of go-redis does that panics. That is its caller's to deal with.
package pipeline

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Exec sends what is in the pipeline. Each command then has its own reply or error.
//
// go-redis leaves them without either where the server refuses the connection (AUTH, SELECT): it
// takes the refusal for the reply to one of them.
//
// go-redis gives up a connection to a server that has become a replica, but only if the first command
// of a pipeline is told so. Behind one that reads, all others would be refused until the connection
// breaks. So one of these is sent again, by itself: the server did nothing when it refused it.
func Exec(ctx context.Context, pipe redis.Pipeliner) {
	cmds := exec(ctx, pipe)
	refused := slices.IndexFunc(cmds, func(cmd redis.Cmder) bool { return redis.IsReadOnlyError(cmd.Err()) })
	if refused > 0 {
		_ = pipe.Process(ctx, cmds[refused])
		exec(ctx, pipe)
	}
}

func exec(ctx context.Context, pipe redis.Pipeliner) []redis.Cmder {
	cmds, err := pipe.Exec(ctx)
	if err == nil || slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
		return cmds
	}
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
	return cmds
}
