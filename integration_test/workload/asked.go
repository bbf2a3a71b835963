package workload

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Asked is a go-redis hook that notes as which owner an actor asks for a lock: of one that it does
// not get, the library does not say. It knows the call by the context, so it does not see those
// whose requests travelled with others. Like [Places] it comes before hooks that change scripts.
type Asked struct{ dials }

var _ redis.Hook = Asked{}

// askedKey is what the context of an attempt carries a pointer under, to the owner.
type askedKey struct{}

// asking is the context for an attempt; owner is as whom it asked last, "" if that was not seen.
func asking(ctx context.Context) (_ context.Context, owner func() string) {
	asked := new(atomic.Value)
	return context.WithValue(ctx, askedKey{}, asked), func() string {
		owner, _ := asked.Load().(string)
		return owner
	}
}

// ProcessHook is part of redis.Hook.
func (Asked) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if at, ok := ctx.Value(askedKey{}).(*atomic.Value); ok {
			if owner := asks(cmd.Args()); owner != "" {
				at.Store(owner)
			}
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook is part of redis.Hook.
func (Asked) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return next(ctx, cmds) }
}

// asks returns the owner of an attempt to get a lock, "" for any other command.
func asks(args []any) (owner string) {
	for _, s := range attempts {
		if runs(args, s.script) && len(arguments(args)) > s.owner {
			owner, _ = arguments(args)[s.owner].(string)
		}
	}
	return owner
}
