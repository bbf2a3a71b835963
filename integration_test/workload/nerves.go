package workload

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// Nerves is, by its Hook, a user's hook of go-redis gone wrong: now and then it takes long or panics, before the script was
// sent or after; actors survive that. It is to be the first hook, or those before it miss the end of a command.
type Nerves struct {
	Slow, Panics float64       // how often, as probabilities
	Longest      time.Duration // that it takes

	mu  sync.Mutex // guards rng
	rng *rand.Rand
}

// Hook is for go-redis.
func (n *Nerves) Hook() redis.Hook { return redistest.Around(n.around) }

// NewNerves makes a hook with random numbers of its own. It is calm unless its fields say otherwise.
func NewNerves(rng *rand.Rand) *Nerves { return &Nerves{rng: rng} }

// fright is what it panics with.
type fright struct{}

var errFright = errors.New("the panic of a hook came through")

// survive is a call whose caller bears the panics of hooks.
func survive(call func() error) (err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case fright{}:
			err = errFright
		default:
			panic(v)
		}
	}()
	return call()
}

// survived is survive for a call that returns something.
func survived[T any](call func() (T, error)) (v T, err error) {
	err = survive(func() (err error) { v, err = call(); return err })
	return v, err
}

// ofPanic reports whether an error comes of a panic, perhaps of another's command that travelled with this one's.
func ofPanic(err error) bool {
	return errors.Is(err, errFright) || err != nil && strings.Contains(err.Error(), "go-redis panicked")
}

func (n *Nerves) around(send func() error, cmds ...redis.Cmder) error {
	if !slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return c.Name() == "evalsha" || c.Name() == "eval" }) {
		return send()
	}
	n.mu.Lock()
	slow, panics, before := n.rng.Float64() < n.Slow, n.rng.Float64() < n.Panics, n.rng.IntN(2) == 0
	pause := time.Duration(n.rng.Float64() * float64(n.Longest))
	n.mu.Unlock()
	if slow {
		<-time.After(pause) // whatever its caller's context says
	}
	if panics && before {
		panic(fright{})
	}
	err := send()
	if panics {
		panic(fright{})
	}
	return err
}

// Haste makes an actor one of many who come all at once and do not stay: more than a lock can serve.
type Haste struct {
	// Longest is how long one of them waits at most, or until its context ends; 0: the actor is none of them.
	Longest time.Duration
	// Every is the time between two bursts. Each is at the same moments, by the recorder's clock.
	Every time.Duration
	// Rounds is how many of them are a burst, on average.
	Rounds int
}

// hasty makes of a Lock one that asks once, waits for a moment, or whose context ends at any moment, or has ended.
func (a *Actor) hasty(op history.Op, opts []holdfast.Option, cancel func()) (_ history.Op, _ []holdfast.Option, stop func()) {
	moment := 1 + time.Duration(a.rng.Int64N(int64(a.Haste.Longest)))
	switch a.rng.IntN(8) {
	case 0:
		op.Kind = history.Try
	case 1:
		cancel()
	case 2, 3:
		timer := time.AfterFunc(moment, cancel)
		return op, append(opts, holdfast.Wait(a.Patience)), func() { timer.Stop() }
	}
	return op, append(opts, holdfast.Wait(moment)), func() {}
}

// rest is the pause between two rounds.
func (a *Actor) rest(ctx context.Context) {
	switch every := int64(a.Haste.Every); {
	case a.Haste.Longest == 0:
		Sleep(ctx, a.random(a.Think))
	case a.rng.IntN(a.Haste.Rounds) == 0:
		Sleep(ctx, time.Duration(every-a.Now()%every))
	}
}

// Observer is one goroutine that observes elections, each for a while.
type Observer struct{ *Actor }

// NewObserver makes one on a client. Of cfg it uses Name, Think, Wait, Round and Now; it observes for several times Wait.
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

// firstKey is where the keys of a script begin: behind the command, the script and the number of keys.
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

// values is what a command replied, as a list.
func values(cmd redis.Cmder) []any {
	reply, ok := cmd.(interface{ Val() any })
	if !ok {
		return nil
	}
	switch v := reply.Val().(type) {
	case []any:
		return v
	case string: // a token, which acquire replies without a list
		return []any{int64(lua.Done), v}
	case int64:
		return []any{v}
	}
	return nil
}
