package holdfasttest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestTimePasses: in a bubble a hold is renewed for long, a waiter is let in when the holder
// leaves, and a lease of a dead holder ends, in no time.
func TestTimePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t)
		hold := locked(t, rlock.New(s.Client(nil), "a"))
		start := time.Now()
		time.AfterFunc(40*time.Minute, func() { _ = hold.Unlock(context.Background()) })
		next := locked(t, rlock.New(s.Client(nil), "a"))
		require.Equal(t, 40*time.Minute, time.Since(start))
		require.Greater(t, next.Token(), hold.Token())
		require.NoError(t, next.Unlock(t.Context()))

		s.Occupy("a", 30*time.Second)
		_, err := rlock.New(s.Client(nil), "a").TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		again := locked(t, rlock.New(s.Client(nil), "a"))
		require.InDelta(t, 30*time.Second, time.Since(start)-40*time.Minute, float64(time.Second))
		require.NoError(t, again.Unlock(t.Context()))
	})
}

// TestTokensGrow: each grant has a greater token, also within one moment of a bubble, and where the server
// has forgotten the last one.
func TestTokensGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t, holdfasttest.AllowHeld())
		last := uint64(0)
		for range 20 {
			for kind, make := range kinds {
				h := locked(t, make(s.Client(nil), kind))
				require.Greater(t, h.Token(), last, kind)
				last = h.Token()
				require.NoError(t, s.Redis().FlushAll(t.Context()).Err())
			}
		}
	})
}
