package workload

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// Observer is one goroutine that observes elections, each for a while.
type Observer struct{ *Actor }

// NewObserver makes one on a client. Of cfg it uses Name, Think, Wait, Round and Now; it observes for several times
// Wait.
func NewObserver(c *holdfast.Client, cfg Config, rec *history.Recorder, client, number int, rng *rand.Rand) *Observer {
	a := New(cfg, rec, client, number, rng)
	a.c = c
	return &Observer{a}
}

// Run observes until ctx ends or the client is closed.
func (a *Observer) Run(ctx context.Context) { a.again(ctx, a.observe) }

// observe records what one loop is told. It is false when the client was closed.
func (a *Observer) observe(ctx context.Context) bool {
	e := election.New(a.c, a.Name(a.rng))
	op := history.Op{Client: a.client, Actor: a.number, Of: history.Elections, Name: e.Name(), Kind: history.Observe}
	loop, cancel := context.WithTimeout(ctx, a.random(8*a.Wait))
	defer cancel()
	call := a.rec.Begin(op)
	var last error
	err := survive(func() error {
		for l, err := range e.Observe(loop) {
			told := op
			told.Kind, told.Seen, told.Token, told.Value, told.Result = history.Told, l.Owner, l.Token, l.Value, history.OK
			if last = err; err != nil {
				told.Result, told.Error = history.Unknown, err.Error()
			}
			a.rec.Note(told)
		}
		return nil
	})
	call.End(func(o *history.Op) { note(o, err) })
	return !errors.Is(last, holdfast.ErrClosed)
}

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
