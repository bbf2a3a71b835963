package memory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/memory"
)

// TestHeldUntilItIsReleased: what a release takes does not count as held, whatever the lock was asked for with, nor
// does it where a hold inside another ends.
func TestHeldUntilItIsReleased(t *testing.T) {
	for name, opts := range map[string][]holdfast.Option{
		"as usual": nil, "not handed on": {holdfast.NoHandoff()}, "not renewed": {holdfast.NoRenewal()},
		"extended": {holdfast.Lease(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended []time.Duration
				c, err := memory.NewClient(&holdfast.Options{Observer: &holdfast.Observer{
					Ended: func(_ context.Context, e holdfast.EndEvent) { ended = append(ended, e.Held) },
				}})
				require.NoError(t, err)
				m := memory.New(c, &memory.Server{ReleaseTakes: 2 * time.Second}, "a")
				h, err := m.Lock(t.Context(), opts...)
				require.NoError(t, err)
				time.Sleep(time.Second)
				inner, err := m.Lock(h.Context(), opts...)
				require.NoError(t, err)
				if name == "extended" {
					require.NoError(t, h.Extend(t.Context(), time.Hour))
				}
				require.NoError(t, inner.Unlock(t.Context()))
				require.NoError(t, h.Unlock(t.Context()))
				require.NoError(t, c.Close(t.Context()))
				require.Equal(t, []time.Duration{0, time.Second}, ended)
			})
		})
	}
}
