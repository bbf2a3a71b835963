package remote

import (
	"context"
	"math/bits"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/combine"
)

const (
	// steps is how many timeouts there are between a timeout and its double.
	steps = 8
	// least is the shortest timeout. A timeout that is over closes the connection. Callers in a hurry
	// must not close the connections of a server that is only slow.
	least = 100 * time.Millisecond
)

// timeouts are go-redis clients that share the connections of the user's client, and wait for
// answers for a shorter time. They are needed because go-redis does not interrupt a read at the end
// of a context, and a goroutine for each command costs more than everything else that a free lock
// does.
//
// No timeout is shorter than least, whatever the deadline is. A timeout ends after the deadline by
// an eighth of the time that was left, at most.
//
// Such a client has none of the hooks that the user has added to the user's client. So commands go
// through the user's client, and a hook behind all others sends them by the client with the
// timeout. The user's client keeps that hook for good. If the user later adds another hook behind
// it, that one comes first. Then there are no timeouts but those of the user's client.
//
// Where the user's client waits for ever, an answer to this library is waited for no longer than the
// retry budget. Otherwise a connection whose other end is gone would keep renewals and waiters for as long
// as TCP does.
type timeouts struct {
	of     *redis.Client
	usual  time.Duration // how long of waits; not positive: for ever
	budget time.Duration
	of8    [steps * 64]atomic.Pointer[redis.Client] // by class
}

func newTimeouts(of *redis.Client, budget time.Duration) *timeouts {
	ts := &timeouts{of: of, usual: of.Options().ReadTimeout, budget: max(budget, least)}
	of.AddHook(&diverter{timeouts: ts})
	return ts
}

// left returns the timeout for a caller who waits for an answer until a time. It is 0 if the user's
// own timeout is not longer.
func (ts *timeouts) left(until time.Time) time.Duration {
	d, _ := class(max(time.Until(until), least))
	if ts.usual > 0 && d >= ts.usual {
		return 0
	}
	return d
}

// client returns the client for a timeout that left has returned.
func (ts *timeouts) client(d time.Duration) *redis.Client {
	_, at := class(d)
	c := ts.of8[at].Load()
	if c == nil {
		c = ts.of.WithTimeout(d)
		ts.of8[at].Store(c)
	}
	return c
}

// class rounds a time up to one of few times, by an eighth of it at most. at is the number of that
// time.
func class(d time.Duration) (rounded time.Duration, at int) {
	millis := uint64((d + time.Millisecond - 1) / time.Millisecond) //nolint:gosec // positive
	shift := max(bits.Len64(millis)-bits.Len(steps), 0)
	n := (millis + 1<<shift - 1) >> shift                                   // steps to 2*steps, or less if it is small
	return time.Duration(n<<shift) * time.Millisecond, shift*steps + int(n) //nolint:gosec // small
}

// diverter is the hook. go-redis calls its methods whenever a hook is added. The first time is when
// the diverter is the last hook itself.
type diverter struct {
	*timeouts
	process, pipeline uintptr // the functions of go-redis behind all hooks; guarded by its mutex for hooks
}

// DialHook changes nothing.
func (*diverter) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook sends one command by the client with its timeout.
func (d *diverter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	if !isLast(&d.process, next) {
		return next
	}
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h, ok := cmd.(combine.Hurried); ok {
			if timeout := d.orBudget(h.TakeTimeout()); timeout > 0 {
				return d.client(timeout).Process(ctx, cmd)
			}
		}
		return next(ctx, cmd)
	}
}

// orBudget is the timeout for a command of this library, which may have one of its own. 0 stands for the user's.
func (d *diverter) orBudget(own time.Duration) time.Duration {
	if own <= 0 && d.usual <= 0 {
		return d.budget
	}
	return own
}

func isOurs(cmd redis.Cmder) bool {
	_, is := cmd.(combine.Hurried)
	return is
}

// ProcessPipelineHook sends several.
func (d *diverter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	if !isLast(&d.pipeline, next) {
		return next
	}
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx, timeout := combine.TakeTimeout(ctx)
		if slices.ContainsFunc(cmds, isOurs) {
			timeout = d.orBudget(timeout)
		}
		if timeout <= 0 {
			return next(ctx, cmds)
		}
		pipe := d.client(timeout).Pipeline()
		_ = pipe.BatchProcess(ctx, cmds...)
		_, err := pipe.Exec(ctx)
		return err
	}
}

// isLast reports whether no hook that does anything is behind this one.
func isLast(bare *uintptr, next any) bool {
	code := reflect.ValueOf(next).Pointer()
	if *bare == 0 {
		*bare = code
	}
	return code == *bare
}
