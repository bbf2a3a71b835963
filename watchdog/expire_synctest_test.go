package watchdog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestExpire: the goroutine that keeps the time does not run. Who looks at the clock sees that a
// lease is over, and its owner is told then, and not once more later.
func TestExpire(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		const hangs, short = time.Minute, time.Second
		h, blocker := &holder{}, &holder{pause: hangs}
		require.True(t, w.Watch(&blocker.lease, blocker, time.Now(), short, false))
		require.True(t, w.Watch(&h.lease, h, time.Now(), lease, false))
		time.Sleep(Trust(lease) - time.Nanosecond)
		require.False(t, w.Over(&h.lease))
		require.False(t, w.Expire(&h.lease), "before its time")
		time.Sleep(time.Nanosecond)
		require.True(t, w.Over(&h.lease))
		lost, _ := h.told()
		require.Empty(t, lost, "the watchdog hangs")
		require.True(t, w.Expire(&h.lease))
		require.False(t, w.Expire(&h.lease))
		time.Sleep(2 * hangs)
		synctest.Wait()
		lost, at := h.told()
		require.Equal(t, []error{ErrEnded}, lost)
		require.Equal(t, w.Deadline(&h.lease), at)
	})
}

// TestExpireConfirmed: a lease that was confirmed is not over, whatever it had been without that;
// nor is one that was forgotten told.
func TestExpireConfirmed(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		h := &holder{}
		require.True(t, w.Watch(&h.lease, h, time.Now(), lease, true))
		time.Sleep(lease)
		synctest.Wait()
		require.False(t, w.Over(&h.lease))
		require.False(t, w.Expire(&h.lease))
		require.True(t, w.Forget(&h.lease))
		time.Sleep(lease)
		require.True(t, w.Over(&h.lease))
		require.False(t, w.Expire(&h.lease))
		lost, _ := h.told()
		require.Empty(t, lost)
	})
}
