package combine

import (
	"context"
	"time"
)

// Hurried is a command that knows how long its caller waits for the answer. A hook of the client
// takes that time.
type Hurried interface {
	SetTimeout(d time.Duration)
	TakeTimeout() time.Duration
}

type timeoutKey struct{}

// WithTimeout returns the context of a pipeline whose answers are waited for no longer than d.
func WithTimeout(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, timeoutKey{}, d)
}

// TakeTimeout returns how long the answers to a pipeline are waited for that is sent under a
// context. 0 means as long as its client waits. The time can be taken once: the returned context
// does not have it.
func TakeTimeout(ctx context.Context) (context.Context, time.Duration) {
	d, _ := ctx.Value(timeoutKey{}).(time.Duration)
	if d > 0 {
		ctx = context.WithValue(ctx, timeoutKey{}, time.Duration(0))
	}
	return ctx, d
}
