package workload

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/lua"
)

// Places is a go-redis hook that records when actors ask for a place in the queue of a fair lock, and when they surely have
// one, and as which owner they ask for a lock, which the library does not say of one that they do not get. It knows an actor by
// the context of its Lock, and in a pipeline, which has the context of one of those who send it, by the owner for which it has
// asked alone before. It is to be the first hook of a client, because others may put another script in place of the library's.
type Places struct {
	actors sync.Map // string to *Actor: who has asked for an owner
}

var _ redis.Hook = (*Places)(nil)

// actorKey is what a context carries an actor under.
type actorKey struct{}

// askedKey is an attempt's context key for a pointer to the owner. Requests that travelled with others do not carry it.
type askedKey struct{}

// asking is the context for an attempt; owner is as whom it asked last, "" if that was not seen.
func asking(ctx context.Context) (_ context.Context, owner func() string) {
	asked := new(atomic.Value)
	return context.WithValue(ctx, askedKey{}, asked), func() string {
		owner, _ := asked.Load().(string)
		return owner
	}
}

// asksAs returns the owner of an attempt to get a lock, "" for any other command.
func asksAs(args []any) (owner string) {
	for _, s := range attempts {
		if runs(args, s.script) && len(arguments(args)) > s.owner {
			owner, _ = arguments(args)[s.owner].(string)
		}
	}
	return owner
}

// DialHook is part of redis.Hook.
func (p *Places) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook is part of redis.Hook.
func (p *Places) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if at, ok := ctx.Value(askedKey{}).(*atomic.Value); ok {
			if owner := asksAs(cmd.Args()); owner != "" {
				at.Store(owner)
			}
		}
		a, _ := ctx.Value(actorKey{}).(*Actor)
		op, asks := asksForPlace(cmd.Args())
		if a == nil || !asks {
			return next(ctx, cmd)
		}
		p.actors.Store(op.Owner, a)
		call := a.asks(op)
		err := next(ctx, cmd)
		end(call, cmd, err)
		return err
	}
}

// ProcessPipelineHook is part of redis.Hook.
func (p *Places) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		calls := make(map[redis.Cmder]history.Call)
		for _, cmd := range cmds {
			op, asks := asksForPlace(cmd.Args())
			if a, known := p.actors.Load(op.Owner); asks && known {
				calls[cmd] = a.(*Actor).asks(op)
			}
		}
		err := next(ctx, cmds)
		for cmd, call := range calls {
			end(call, cmd, cmd.Err())
		}
		return err
	}
}

// asks notes that an actor asks for a place.
func (a *Actor) asks(op history.Op) history.Call {
	op.Client, op.Actor = a.client, a.number
	if a.of != history.Locks {
		op.Of = a.of
	}
	return a.rec.Begin(op)
}

// end notes what that came to.
func end(call history.Call, cmd redis.Cmder, err error) {
	call.End(func(o *history.Op) {
		note(o, err)
		if err == nil {
			o.Result = answered(cmd)
		}
	})
}

// attempts are the scripts that ask for a lock, each with how many arguments come after the keys until the
// owner, and until that which says whether it is to have a place; 0: there is no queue. See the scripts for their arguments.
var attempts = []struct {
	script       *lua.Script
	owner, place int
	of           history.Family
}{
	{lua.FairAcquire, 0, 4, history.Locks},
	{lua.SemAcquire, 1, 6, history.Permits},
	{lua.RwWrite, 0, 5, history.ReadWrite},
	{lua.RwRead, 0, 0, history.ReadWrite},
	{lua.Acquire, 0, 0, history.Locks},
}

// asksForPlace returns what is known of an attempt to get a lock or a place in its queue, and whether a command is one.
func asksForPlace(args []any) (op history.Op, asks bool) {
	for _, s := range attempts {
		if s.place == 0 || !runs(args, s.script) {
			continue
		}
		more := arguments(args)
		if len(more) <= s.place || more[s.place] == any(0) || more[s.place] == any("0") {
			return op, false
		}
		op.Kind, op.Of = history.Queue, s.of
		op.Name, _ = args[firstKey].(string)
		op.Owner, _ = more[s.owner].(string)
		return op, op.Name != ""
	}
	return op, false
}

// answered is what an attempt came to: OK with a place, Denied without one, because the lock was granted.
func answered(cmd redis.Cmder) history.Result {
	switch list := values(cmd); {
	case len(list) == 0:
		return history.Unknown
	case list[0] == any(int64(0)):
		return history.OK
	}
	return history.Denied
}
