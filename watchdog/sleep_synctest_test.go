package watchdog

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/suspend"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
)

// machine is one that sleeps when a test says so.
type machine struct{ asleep, ahead atomic.Int64 }

func (m *machine) clock() *suspend.Clock {
	return suspend.New(suspend.Source{
		Now:    time.Now,
		Ahead:  func(time.Time) time.Duration { return time.Duration(m.ahead.Load()) },
		Asleep: func() (time.Duration, bool) { return time.Duration(m.asleep.Load()), true },
	})
}

// sleep goes by without the monotonic clock, and so without timers.
func (m *machine) sleep(d time.Duration) {
	m.asleep.Add(int64(d))
	m.ahead.Add(int64(d))
}

// sleepy is bubble on a machine that sleeps.
func sleepy(t *testing.T, off controls, f func(t *testing.T, m *machine, w *Watchdog, s *fakeServer)) {
	t.Helper()
	bubble(t, off, func(t *testing.T, w *Watchdog, s *fakeServer) {
		m := &machine{}
		w.clock = m.clock()
		w.epoch = w.clock.Now()
		f(t, m, w, s)
	})
}

// TestSleptBeyondTheLease: whoever looks first after the machine woke sees that the lease is over,
// and its owner is told within a glance if nobody does.
func TestSleptBeyondTheLease(t *testing.T) {
	sleepy(t, controls{}, func(t *testing.T, m *machine, w *Watchdog, _ *fakeServer) {
		seen, unseen := watch(t, w, true), watch(t, w, true)
		time.Sleep(glance / 2)
		m.sleep(lease)
		require.True(t, w.Over(&seen.lease))
		require.False(t, w.Deadline(&seen.lease).After(time.Now()))
		require.False(t, w.Confirm(&seen.lease, time.Now(), lease, true))
		require.False(t, w.Forget(&seen.lease))
		require.True(t, w.Expire(&seen.lease))
		time.Sleep(glance)
		synctest.Wait()
		for _, h := range []*holder{seen, unseen} {
			lost, _ := h.told()
			require.Equal(t, []error{ErrDeadline}, lost)
		}
	})
}

// TestSleptBeyondTheLeaseControl: by the monotonic clock alone it is trusted on.
func TestSleptBeyondTheLeaseControl(t *testing.T) {
	sleepy(t, controls{without: &defence.Asleep}, func(t *testing.T, m *machine, w *Watchdog, _ *fakeServer) {
		h := watch(t, w, true)
		time.Sleep(glance / 2)
		m.sleep(lease)
		time.Sleep(glance)
		synctest.Wait()
		require.False(t, w.Over(&h.lease))
		require.True(t, w.Forget(&h.lease))
	})
}

// TestShortSleep: a lease that lasts is renewed at once, if it is due by now, and its deadline has
// come nearer.
func TestShortSleep(t *testing.T) {
	for _, off := range []controls{{}, {without: &defence.Asleep}} {
		sleepy(t, off, func(t *testing.T, m *machine, w *Watchdog, s *fakeServer) {
			start := time.Now()
			h := watch(t, w, true)
			m.sleep(lease / 2)
			if off.without == nil {
				require.Equal(t, start.Add(Trust(lease)-lease/2), w.Deadline(&h.lease))
			}
			time.Sleep(glance)
			synctest.Wait()
			if off.without != nil {
				require.Zero(t, s.count(), "control: renewed when the monotonic clock says so")
				return
			}
			require.Equal(t, 1, s.count())
			require.Equal(t, s.call(0).at.Add(Trust(lease)), w.Deadline(&h.lease))
			require.True(t, w.Forget(&h.lease))
		})
	}
}

// TestConfirmedFromBeforeTheSleep: what was sent before the machine slept counts as from then, also
// if its answer was there at once afterwards, and though nobody had looked in between.
func TestConfirmedFromBeforeTheSleep(t *testing.T) {
	for _, off := range []controls{{}, {without: &defence.Asleep}} {
		t.Cleanup(off.apply(t))
		synctest.Test(t, func(t *testing.T) {
			m, s := &machine{}, &fakeServer{}
			slept := false
			w := New(Config{Renew: func(ctx context.Context, batch []Renewal) {
				s.renew(ctx, batch)
				if !slept {
					slept = true
					m.sleep(2 * lease)
				}
			}})
			defer w.Join()
			defer w.Stop()
			w.clock = m.clock()
			h := watch(t, w, true)
			time.Sleep(lease/3 + glance)
			synctest.Wait()
			lost, _ := h.told()
			require.Equal(t, off.without != nil, len(lost) == 0, "control: the confirmation is believed")
			sent := time.Now()
			m.sleep(2 * lease)
			again := &holder{}
			require.True(t, w.Watch(&again.lease, again, sent, lease, true))
			require.Equal(t, off.without == nil, w.Over(&again.lease), "a grant too")
			sent = w.clock.Now()
			require.True(t, w.Watch(&again.lease, again, sent, lease, true))
			require.False(t, w.Over(&again.lease), "but not one that was sent after a look")
			require.Equal(t, sent.Add(Trust(lease)), w.Deadline(&again.lease))
		})
	}
}

// TestDoubt: a wall clock that jumped forward is no loss, but all is renewed: the server decides.
func TestDoubt(t *testing.T) {
	for _, off := range []controls{{}, {without: &defence.Doubt}} {
		t.Cleanup(off.apply(t))
		for _, verdict := range []Verdict{Renewed, Gone} {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{}
				asked := 0
				w := New(Config{Renew: func(_ context.Context, batch []Renewal) {
					asked += len(batch)
					for i := range batch {
						batch[i].Verdict = verdict
					}
				}})
				defer w.Join()
				defer w.Stop()
				w.clock = m.clock()
				h, plain := watch(t, w, true), watch(t, w, false)
				m.ahead.Add(int64(time.Hour))
				require.False(t, w.Over(&h.lease))
				time.Sleep(glance)
				synctest.Wait()
				require.Equal(t, off.without == nil, asked == 1)
				lost, _ := h.told()
				require.Equal(t, verdict == Gone && off.without == nil, len(lost) == 1)
				lost, _ = plain.told()
				require.Empty(t, lost)
			})
		}
	}
}
