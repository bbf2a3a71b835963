package remote

import (
	"context"
	"math/bits"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/combine"
)

const (
	// steps is how many timeouts there are between one and its double.
	steps = 8
	// least is the shortest timeout. One that is over closes the connection: callers in a hurry must not close
	// those of a server that is only slow.
	least = 100 * time.Millisecond
)

// timeouts are clients of go-redis that share the connections of one and wait for answers for a
// shorter time. go-redis does not interrupt a read at the end of a context, and a goroutine for each
// command costs more than all else that a free lock does.
//
// None is shorter than least, whatever the deadline. It is later than the deadline by an eighth of what was
// left at most.
//
// Such a client has none of the hooks that the user has added to his. So commands go through his
// client, and a hook behind all others sends them by the one with the timeout. The user's client
// keeps that hook for good. Where the user adds another one behind it, later, that comes first: then
// there are no timeouts but those of the user's client.
type timeouts struct {
	of    *redis.Client
	usual time.Duration                            // what of waits; not positive: for ever
	of8   [steps * 64]atomic.Pointer[redis.Client] // by class
}

func newTimeouts(of *redis.Client) *timeouts {
	ts := &timeouts{of: of, usual: of.Options().ReadTimeout}
	of.AddHook(&diverter{timeouts: ts})
	return ts
}

// left is the timeout for an answer that is waited for until a time; 0 if the user's own is no longer.
func (ts *timeouts) left(until time.Time) time.Duration {
	d, _ := class(max(time.Until(until), least))
	if ts.usual > 0 && d >= ts.usual {
		return 0
	}
	return d
}

// client has a timeout that left has given.
func (ts *timeouts) client(d time.Duration) *redis.Client {
	_, at := class(d)
	c := ts.of8[at].Load()
	if c == nil {
		c = ts.of.WithTimeout(d)
		ts.of8[at].Store(c)
	}
	return c
}

// class rounds a time up to one of few, by an eighth of it at most, and numbers them.
func class(d time.Duration) (rounded time.Duration, at int) {
	millis := uint64((d + time.Millisecond - 1) / time.Millisecond) //nolint:gosec // positive
	shift := max(bits.Len64(millis)-bits.Len(steps), 0)
	n := (millis + 1<<shift - 1) >> shift                                   // steps to 2*steps, or less if it is small
	return time.Duration(n<<shift) * time.Millisecond, shift*steps + int(n) //nolint:gosec // small
}

// diverter is the hook. go-redis calls its methods whenever a hook is added, for the first time when it
// is the last one itself.
type diverter struct {
	*timeouts
	process, pipeline uintptr // what go-redis does behind all hooks; guarded by its mutex for hooks
}

// DialHook changes nothing.
func (*diverter) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook is for one command.
func (d *diverter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	if !isLast(&d.process, next) {
		return next
	}
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h, ok := cmd.(combine.Hurried); ok {
			if timeout := h.TakeTimeout(); timeout > 0 {
				return d.client(timeout).Process(ctx, cmd)
			}
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook is for several.
func (d *diverter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	if !isLast(&d.pipeline, next) {
		return next
	}
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx, timeout := combine.TakeTimeout(ctx)
		if timeout <= 0 {
			return next(ctx, cmds)
		}
		pipe := d.client(timeout).Pipeline()
		_ = pipe.BatchProcess(ctx, cmds...)
		_, err := pipe.Exec(ctx)
		return err
	}
}

// isLast reports whether no hook stands behind this one that does anything.
func isLast(bare *uintptr, next any) bool {
	code := reflect.ValueOf(next).Pointer()
	if *bare == 0 {
		*bare = code
	}
	return code == *bare
}
