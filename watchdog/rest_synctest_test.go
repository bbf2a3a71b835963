package watchdog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRest: a lease that is not to be renewed any more is lost at its deadline, and one that is
// confirmed as renewed again is renewed.
func TestRest(t *testing.T) {
	for _, rest := range []bool{true, false} { // the second one is the control
		bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
			h := &holder{}
			require.True(t, w.Watch(&h.lease, h, time.Now(), lease, true))
			time.Sleep(lease / 2)
			synctest.Wait()
			require.Equal(t, 1, s.count())
			if rest {
				w.StopRenewing(&h.lease)
			}
			time.Sleep(lease / 2)
			synctest.Wait()
			require.Equal(t, !rest, s.count() > 1)
			require.True(t, w.Confirm(&h.lease, time.Now(), lease, !rest))
			before := s.count()
			time.Sleep(2 * lease)
			synctest.Wait()
			require.Equal(t, !rest, s.count() > before)
			w.Forget(&h.lease)
		})
	}
}
