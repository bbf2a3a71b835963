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
	bubble(t, off, func(t *testing.T, w *Watchdog, s *fakeServer) {
		m := &machine{}
		w.clock = m.clock()
		w.epoch = w.clock.Now()
		f(t, m, w, s)
	})
}

// TestSleptBeyondTheLease: the first look after the machine woke sees the end, and the owner is told within a glance anyway.
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
		pass(glance)
		for _, h := range []*holder{seen, unseen} {
			h.heard(t, ErrDeadline)
		}
	})
}

// TestSleptBeyondTheLeaseControl: by the monotonic clock alone it is trusted on.
func TestSleptBeyondTheLeaseControl(t *testing.T) {
	sleepy(t, controls{without: &defence.Asleep}, func(t *testing.T, m *machine, w *Watchdog, _ *fakeServer) {
		h := watch(t, w, true)
		time.Sleep(glance / 2)
		m.sleep(lease)
		pass(glance)
		require.False(t, w.Over(&h.lease))
		require.True(t, w.Forget(&h.lease))
	})
}

// TestShortSleep: a lease that lasts is renewed at once, if it is due by now, and its deadline has come nearer.
func TestShortSleep(t *testing.T) {
	for _, off := range []controls{{}, {without: &defence.Asleep}} {
		sleepy(t, off, func(t *testing.T, m *machine, w *Watchdog, s *fakeServer) {
			start := time.Now()
			h := watch(t, w, true)
			m.sleep(lease / 2)
			if off.without == nil {
				require.Equal(t, start.Add(Trust(lease)-lease/2), w.Deadline(&h.lease))
			}
			pass(glance)
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
		sleepy(t, off, func(t *testing.T, m *machine, w *Watchdog, s *fakeServer) {
			slept := false
			s.say(func(ctx context.Context, batch []Renewal) {
				confirm(ctx, batch)
				if !slept {
					slept = true
					m.sleep(2 * lease)
				}
			})
			h := watch(t, w, true)
			pass(lease/3 + glance)
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
		for verdict, answer := range map[Verdict]func(context.Context, []Renewal){Renewed: confirm, Gone: gone} {
			sleepy(t, off, func(t *testing.T, m *machine, w *Watchdog, s *fakeServer) {
				s.say(answer)
				h, plain := watch(t, w, true), watch(t, w, false)
				m.ahead.Add(int64(time.Hour))
				require.False(t, w.Over(&h.lease))
				pass(glance)
				require.Equal(t, off.without == nil, s.count() == 1)
				if s.count() == 1 {
					require.Equal(t, 1, s.call(0).count)
				}
				lost, _ := h.told()
				require.Equal(t, verdict == Gone && off.without == nil, len(lost) == 1)
				plain.heard(t)
			})
		}
	}
}

// TestLeaseAfterASleep: a timer that was set before the machine slept comes later than the moment that it was set for. A lease
// that is watched since is renewed in its time all the same, however short it is, and whether others are watched or not.
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
			pass(2 * short)
			again.heard(t)
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
		pass(2 * glance)
		w.mu.Lock()
		w.wakeBy(w.now() + lease/3) // as of a lease that is taken and released at once
		w.mu.Unlock()
		synctest.Wait()
		h := watch(t, w, false)
		m.sleep(2 * lease)
		pass(glance)
		lost, _ := h.told()
		require.Len(t, lost, 1)
	})
}

// TestExpire: the clock goroutine does not run. A look at the clock sees that a lease is over; its owner is told then, once.
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
		h.heard(t) // the watchdog hangs
		require.True(t, w.Expire(&h.lease))
		require.False(t, w.Expire(&h.lease))
		pass(2 * hangs)
		at := h.heard(t, ErrEnded)
		require.Equal(t, w.Deadline(&h.lease), at)
	})
}

// TestExpireConfirmed: a lease that was confirmed is not over, and one that was forgotten is not told.
func TestExpireConfirmed(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		h := watch(t, w, true)
		pass(lease)
		require.False(t, w.Over(&h.lease))
		require.False(t, w.Expire(&h.lease))
		require.True(t, w.Forget(&h.lease))
		time.Sleep(lease)
		require.True(t, w.Over(&h.lease))
		require.False(t, w.Expire(&h.lease))
		h.heard(t)
	})
}
