package multilock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/multilock"
)

// TestCallersWhoLeaveStopNobody: callers who all wait for a few round trips get all members now and then, and who waits
// without a limit gets them, of the same client and of another one.
func TestCallersWhoLeaveStopNobody(t *testing.T) {
	const callers, grants, turns = 32, 8, 1
	addr, n := faultproxy.Distance(t, redistest.Shared(t).Addr(), time.Millisecond), names(t, "abc")
	client := func() *holdfast.Client { return newClient(t, redistest.NewClient(t, addr), nil) }
	here, there := client(), client()
	var granted, left atomic.Int64
	var wait atomic.Int64
	wait.Store(int64(15 * time.Millisecond))
	var wrong atomic.Pointer[error]
	ctx, over := context.WithTimeout(t.Context(), 10*patience) // on however busy a machine
	defer over()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for m := multilock.New(plain(here, n...)...); ctx.Err() == nil; {
				switch h, err := m.Lock(t.Context(), holdfast.Wait(time.Duration(wait.Load()))); {
				case err == nil:
					granted.Add(1)
					_ = h.Unlock(t.Context())
				case errors.Is(err, holdfast.ErrNotAcquired), errors.Is(err, holdfast.ErrUnavailable):
					if left.Add(1)%(64*callers) == 0 && granted.Load() == 0 { // nobody is answered sooner: a busy machine
						wait.Store(2 * wait.Load())
					}
				default:
					wrong.Store(&err)
					return
				}
			}
		})
	}
	var stay sync.WaitGroup
	for _, c := range []*holdfast.Client{here, there} {
		stay.Go(func() {
			for range turns {
				h, err := multilock.New(plain(c, n...)...).Lock(ctx)
				if err == nil {
					err = h.Unlock(t.Context())
				}
				if err != nil && !errors.Is(err, holdfast.ErrLost) {
					wrong.Store(&err)
					return
				}
			}
		})
	}
	stay.Wait()
	eventually(t, "grants", func() bool { return granted.Load() >= grants || wrong.Load() != nil })
	over()
	all.Wait()
	if err := wrong.Load(); err != nil {
		require.NoError(t, *err)
	}
	t.Logf("%d granted, %d left", granted.Load(), left.Load())
}
