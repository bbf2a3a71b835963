package watchdog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLeaseAfterASleep: a timer that was set before the machine slept comes later than the moment
// that it was set for. A lease that is watched since is renewed in its time all the same, however
// short it is, and whether others are watched or not.
func TestLeaseAfterASleep(t *testing.T) {
	const short = glance / 10
	for _, others := range []bool{false, true} {
		sleepy(t, controls{}, func(t *testing.T, m *machine, w *Watchdog, _ *fakeServer) {
			h := watch(t, w, true)
			synctest.Wait()
			if !others {
				require.True(t, w.Forget(&h.lease))
			}
			m.sleep(lease / 2)
			again := &holder{}
			require.True(t, w.Watch(&again.lease, again, w.clock.Now(), short, true))
			time.Sleep(2 * short)
			synctest.Wait()
			lost, _ := again.told()
			require.Empty(t, lost)
			require.True(t, w.Forget(&again.lease), "it was renewed")
		})
	}
}

// TestSleepIsNoticedByTheIdle: also where the goroutine sleeps on for a lease that was given up
// before it looked, the next lease has somebody who notices a sleep within a glance.
func TestSleepIsNoticedByTheIdle(t *testing.T) {
	sleepy(t, controls{}, func(t *testing.T, m *machine, w *Watchdog, _ *fakeServer) {
		first := watch(t, w, true)
		require.True(t, w.Forget(&first.lease))
		time.Sleep(2 * glance)
		synctest.Wait()
		w.mu.Lock()
		w.wakeBy(w.now() + lease/3) // as of a lease that is taken and released at once
		w.mu.Unlock()
		synctest.Wait()
		h := watch(t, w, false)
		m.sleep(2 * lease)
		time.Sleep(glance)
		synctest.Wait()
		lost, _ := h.told()
		require.Len(t, lost, 1)
	})
}
