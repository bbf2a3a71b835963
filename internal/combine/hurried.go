package combine

import (
	"context"
	"time"
)

// Hurried is a command that knows for how long its answer is waited for. A hook of the client takes that.
type Hurried interface {
	SetTimeout(d time.Duration)
	TakeTimeout() time.Duration
}

type timeoutKey struct{}

// TakeTimeout is for how long the answers to a pipeline are waited for that is sent under a context; 0: as
// long as its client does. It is said once: not under the context that is returned.
func TakeTimeout(ctx context.Context) (context.Context, time.Duration) {
	d, _ := ctx.Value(timeoutKey{}).(time.Duration)
	if d > 0 {
		ctx = context.WithValue(ctx, timeoutKey{}, time.Duration(0))
	}
	return ctx, d
}
