package watchdog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const hasty = 100 * time.Millisecond

// TestHasten: a lease is renewed sooner, once, and then as ever.
func TestHasten(t *testing.T) {
	for _, hasten := range []bool{true, false} { // the second one is the control
		bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
			h := &holder{}
			require.True(t, w.Watch(&h.lease, h, time.Now(), lease, true))
			early := 0
			if hasten {
				w.Hasten(&h.lease, hasty)
				early = 1
			}
			time.Sleep(hasty - time.Nanosecond)
			synctest.Wait()
			require.Zero(t, s.count())
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			require.Equal(t, early, s.count())
			time.Sleep(lease/3 - hasty)
			synctest.Wait()
			require.Equal(t, 1, s.count(), "the next one is a third of the lease after the last one")
			time.Sleep(hasty)
			synctest.Wait()
			require.Equal(t, 1+early, s.count())
		})
	}
}

// TestHastenIsKept: what confirms the lease meanwhile does not put the renewal off, nor does another wish.
func TestHastenIsKept(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		h := &holder{}
		require.True(t, w.Watch(&h.lease, h, time.Now(), lease, true))
		w.Hasten(&h.lease, hasty)
		time.Sleep(hasty / 2)
		require.True(t, w.Confirm(&h.lease, time.Now(), lease, true))
		w.Hasten(&h.lease, hasty)
		time.Sleep(hasty / 2)
		synctest.Wait()
		require.Equal(t, 1, s.count())
		time.Sleep(hasty)
		synctest.Wait()
		require.Equal(t, 1, s.count(), "once")
	})
}

// TestHastenInVain: who is not renewed, or not watched, is not hastened.
func TestHastenInVain(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		plain, left, never := &holder{}, &holder{}, &holder{}
		require.True(t, w.Watch(&plain.lease, plain, time.Now(), lease, false))
		require.True(t, w.Watch(&left.lease, left, time.Now(), lease, true))
		require.True(t, w.Forget(&left.lease))
		for _, h := range []*holder{plain, left, never} {
			w.Hasten(&h.lease, hasty)
		}
		time.Sleep(2 * hasty)
		synctest.Wait()
		require.Zero(t, s.count())
		require.True(t, w.Watch(&left.lease, left, time.Now(), lease, true))
		time.Sleep(2 * hasty)
		synctest.Wait()
		require.Zero(t, s.count(), "an earlier life's wish is not for this one")
	})
}
