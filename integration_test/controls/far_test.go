package controls_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// tooLate has goroutines of near clients hold the lock in turns, each until an attempt of another
// client, which is so much farther away, has come in vain: so that one never gets the lock by
// chance. It is to get it so many times, before the near ones had it most times.
func (l *lab) tooLate(near int, oneWay time.Duration, grants, most int) string {
	far := rlock.New(l.clientOn(redistest.NewClient(l, faultproxy.Distance(l, l.proxy.Addr(), oneWay)), nil), name)
	l.warm(far)
	tries := func() int { return l.proxy.Seen(l.sends(lua.Acquire)) } // that have arrived
	ctx, cancel := context.WithCancel(l.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	var had atomic.Int64
	for range near {
		m, before := rlock.New(l.around(), name), queued()
		for range 3 {
			group.Go(func() {
				for ctx.Err() == nil {
					h, err := m.Lock(ctx)
					if err != nil {
						return
					}
					seen := tries()
					l.within(patience, func() bool { return ctx.Err() != nil || tries() > seen })
					if had.Add(1) >= int64(most) {
						cancel()
					}
					if err := h.Unlock(l.Context()); err != nil {
						l.Error(err)
					}
				}
			})
		}
		require.True(l, l.within(patience, func() bool { return queued() > before }))
	}
	for got := range grants {
		h, err := far.Lock(ctx)
		if err != nil {
			return fmt.Sprintf("%d times, while the near ones had it %d times", got, had.Load())
		}
		require.NoError(l, h.Unlock(l.Context()))
	}
	return ""
}
