package workload

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/lua"
)

// Places is a go-redis hook that records when actors ask for a place in the queue of a fair lock,
// and when they surely have one, which the library does not say. It knows an actor by the context
// of its Lock. It is to be the first hook of a client, because others may put another script in
// place of the library's.
type Places struct{}

var _ redis.Hook = Places{}

// actorKey is what a context carries an actor under.
type actorKey struct{}

// DialHook is part of redis.Hook.
func (Places) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook is part of redis.Hook.
func (Places) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		a, _ := ctx.Value(actorKey{}).(*Actor)
		name, owner := asksForPlace(cmd.Args())
		if a == nil || name == "" {
			return next(ctx, cmd)
		}
		call := a.rec.Begin(history.Op{Client: a.client, Actor: a.number, Name: name, Kind: history.Queue,
			Owner: owner})
		err := next(ctx, cmd)
		call.End(func(o *history.Op) {
			note(o, err)
			if err == nil {
				o.Result = answered(cmd)
			}
		})
		return err
	}
}

// ProcessPipelineHook is part of redis.Hook. Nobody asks for a place in a pipeline.
func (Places) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return next(ctx, cmds) }
}

// asksForPlace returns the lock and the owner of an attempt to get it or a place in its queue, ""
// for any other command. See fair_acquire.lua for the arguments.
func asksForPlace(args []any) (name, owner string) {
	const first, place = 3, 12 // the command, the script and the number of keys come before
	if len(args) <= place || args[1] != any(lua.FairAcquire.Hash()) && args[1] != any(lua.FairAcquire.Text()) {
		return "", ""
	}
	if n, ok := args[place].(int); ok && n == 0 {
		return "", ""
	}
	name, _ = args[first].(string)
	owner, _ = args[first+5].(string)
	return name, owner
}

// answered is what an attempt came to: OK with a place, Denied without one, because the lock was
// granted.
func answered(cmd redis.Cmder) history.Result {
	reply, ok := cmd.(interface{ Slice() ([]any, error) })
	if !ok {
		return history.Unknown
	}
	list, err := reply.Slice()
	switch {
	case err != nil || len(list) == 0:
		return history.Unknown
	case list[0] == any(int64(0)):
		return history.OK
	}
	return history.Denied
}
