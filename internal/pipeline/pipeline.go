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
func Exec(ctx context.Context, pipe redis.Pipeliner) {
	cmds, err := pipe.Exec(ctx)
	if err == nil || slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
		return
	}
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
}
