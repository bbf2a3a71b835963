package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
)

// Who waits without a limit is not delayed by callers of its own client who come and leave: it is granted the lock at the
// first release, and of those who want to write, none is who came after it.
func TestWhoStaysAmongThoseWhoLeave(t *testing.T) {
	const callers = 16
	for _, read := range []bool{false, true} {
		t.Run(fmt.Sprintf("read %v", read), func(t *testing.T) {
			l := newLab(t)
			waits := make(chan struct{})
			var once sync.Once
			here := l.process(&holdfast.Options{Observer: &holdfast.Observer{
				Waiting: func(ctx context.Context, e holdfast.WaitEvent) context.Context {
					if !e.Bounded && !e.Once {
						once.Do(func() { close(waits) })
					}
					return ctx
				},
			}})
			acquire := here.Lock
			if read {
				acquire = here.RLock
			}
			other := lock(t, l.process(nil))
			var left, granted atomic.Int64
			var wrong atomic.Pointer[error]
			ctx, over := context.WithCancel(t.Context())
			defer over()
			var callersLeft sync.WaitGroup
			for range callers {
				callersLeft.Go(func() {
					for ctx.Err() == nil && wrong.Load() == nil {
						switch h, err := acquire(t.Context(), holdfast.Wait(2*time.Millisecond)); {
						case err == nil:
							granted.Add(1)
							_ = h.Unlock(t.Context())
						case errors.Is(err, holdfast.ErrNotAcquired), errors.Is(err, holdfast.ErrUnavailable):
							left.Add(1)
						default:
							wrong.Store(&err)
						}
					}
				})
			}
			leave := func() {
				before := left.Load()
				eventually(t, "they come and leave", func() bool { return left.Load() > before+8*callers })
			}
			leave()
			passed := int64(0)
			stays := begin(t.Context(), t, func(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
				h, err := acquire(ctx, opts...)
				passed = granted.Load()
				return h, err
			})
			<-waits
			leave()
			require.Zero(t, granted.Load())
			unlock(t, other)
			unlock(t, stays.Hold())
			if !read {
				require.LessOrEqual(t, passed, int64(callers), "each that may have come before it, once")
			}
			over()
			callersLeft.Wait()
			require.Nil(t, wrong.Load())
			kindtest.Eventually(t, "nothing is left", func() bool { return len(l.fields()) == 0 && l.waiting() == 0 })
		})
	}
}
