package workload

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lua"
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

// asks returns the owner of an attempt to get a lock, "" for any other command. See the scripts for
// their arguments.
func asks(args []any) string {
	at := firstKey
	switch {
	case runs(args, lua.FairAcquire), runs(args, lua.Acquire), runs(args, lua.RwWrite), runs(args, lua.RwRead):
	case runs(args, lua.SemAcquire):
		at++
	default:
		return ""
	}
	keys, ok := args[firstKey-1].(int) // one more where a head start is needed
	if !ok || len(args) <= at+keys {
		return ""
	}
	owner, _ := args[at+keys].(string)
	return owner
}
