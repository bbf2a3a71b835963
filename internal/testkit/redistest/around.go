package redistest

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Around is a hook of go-redis that sends each command, or all commands of a pipeline together, by a
// function: before it, after it, or not at all.
type Around func(send func() error, cmds ...redis.Cmder) error

// DialHook leaves connections alone.
func (Around) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook is for one command.
func (a Around) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return a(func() error { return next(ctx, cmd) }, cmd)
	}
}

// ProcessPipelineHook is for several.
func (a Around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return a(func() error { return next(ctx, cmds) }, cmds...)
	}
}
