package watchdog

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const lease = 30 * time.Second

// bubble runs f in virtual time with a watchdog on a fake server. That the bubble ends shows that no goroutine is left.
func bubble(t *testing.T, f func(t *testing.T, w *Watchdog, s *fakeServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		w := New(Config{Renew: s.renew})
		f(t, w, s)
		w.Stop()
		w.Join()
	})
}

func watch(t *testing.T, w *Watchdog, renew bool) *holder {
	t.Helper()
	h := &holder{}
	require.True(t, w.Watch(&h.lease, h, time.Now(), lease, renew))
	return h
}

func TestRenewsEveryThird(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog, s *fakeServer) {
		start := time.Now()
		h := watch(t, w, true)
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		require.Equal(t, 360, s.count())
		for i := range 360 {
			require.Equal(t, time.Duration(i+1)*lease/3, s.call(i).at.Sub(start))
		}
		require.Equal(t, s.call(359).at.Add(Trust(lease)), w.Deadline(&h.lease))
		lost, _ := h.told()
		require.Empty(t, lost)
	})
}

func TestPlainLeaseEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog, s *fakeServer) {
		start := time.Now()
		h := watch(t, w, false)
		time.Sleep(time.Minute)
		lost, at := h.told()
		require.Equal(t, []error{ErrDeadline}, lost)
		require.Equal(t, Trust(lease), at.Sub(start))
		require.Zero(t, s.count())
		require.False(t, w.Forget(&h.lease))
	})
}

// TestSilenceIsToldInTime: the server stops answering. All holders are told at their deadlines, to the instant, although
// every renewal is stuck, and also if it cannot be cancelled. The control renews in the goroutine that keeps the time.
func TestSilenceIsToldInTime(t *testing.T) {
	late := func(t *testing.T, alone bool, answer func(context.Context, []Renewal)) (late time.Duration) {
		bubble(t, func(t *testing.T, w *Watchdog, s *fakeServer) {
			w.alone = alone
			s.say(answer)
			holders := make([]*holder, 1000)
			starts := make([]time.Time, len(holders))
			for i := range holders {
				starts[i] = time.Now()
				holders[i] = watch(t, w, true)
				time.Sleep(7 * time.Millisecond)
			}
			time.Sleep(10 * time.Minute)
			for i, h := range holders {
				lost, at := h.told()
				require.Equal(t, []error{ErrDeadline}, lost)
				late = max(late, at.Sub(starts[i].Add(Trust(lease))))
			}
			require.LessOrEqual(t, s.peak(), inFlight)
		})
		return late
	}
	require.Zero(t, late(t, false, silent))
	require.Zero(t, late(t, false, deaf(time.Minute)))
	require.Greater(t, late(t, true, deaf(time.Minute)), time.Second, "control: told after the server may have granted")
}

// TestLostAnswers: most answers are lost. What counts is when the confirmed attempt was sent.
func TestLostAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog, s *fakeServer) {
		const slow = 150 * time.Millisecond
		var sent atomic.Pointer[time.Time] // of the last one that was confirmed
		s.say(func(ctx context.Context, batch []Renewal) {
			if n := s.count(); n%4 == 0 {
				now := time.Now()
				time.Sleep(slow)
				confirm(ctx, batch)
				sent.Store(&now)
			}
		})
		h := watch(t, w, true)
		for range 100 {
			time.Sleep(time.Minute)
			synctest.Wait()
			lost, _ := h.told()
			require.Empty(t, lost)
			require.Equal(t, sent.Load().Add(Trust(lease)), w.Deadline(&h.lease), "counted from the sending, not from the answer")
		}
	})
}

// TestLateAnswer: lost is lost, whatever an answer says that comes after the deadline.
func TestLateAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog, s *fakeServer) {
		s.say(func(ctx context.Context, batch []Renewal) {
			time.Sleep(lease)
			confirm(ctx, batch)
		})
		h := watch(t, w, true)
		time.Sleep(5 * lease)
		lost, _ := h.told()
		require.Equal(t, []error{ErrDeadline}, lost, "told once")
	})
}

func TestGoneIsToldAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog, s *fakeServer) {
		s.say(gone)
		start := time.Now()
		h := watch(t, w, true)
		time.Sleep(time.Hour)
		lost, at := h.told()
		require.Equal(t, []error{ErrGone}, lost)
		require.Equal(t, lease/3, at.Sub(start))
		require.Equal(t, 1, s.count())
	})
}

// TestForget: no renewal begins after it, and the verdict of one that is under way is ignored, also by a later life of
// the same lease.
func TestForget(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog, s *fakeServer) {
		s.say(func(ctx context.Context, batch []Renewal) {
			time.Sleep(time.Second)
			gone(ctx, batch)
		})
		h := watch(t, w, true)
		time.Sleep(lease/3 + time.Millisecond)
		require.Equal(t, 1, s.count(), "one is under way")
		require.True(t, w.Forget(&h.lease))
		require.False(t, w.Forget(&h.lease))
		require.True(t, w.Watch(&h.lease, h, time.Now(), lease, true), "a new life")
		s.say(confirm)
		time.Sleep(2 * time.Second) // the verdict of the old one arrives
		lost, _ := h.told()
		require.Empty(t, lost)
		require.True(t, w.Forget(&h.lease))
		before := s.count()
		time.Sleep(time.Hour)
		require.Equal(t, before, s.count())
	})
}

func TestConfirm(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog, s *fakeServer) {
		h := watch(t, w, false)
		start := time.Now()
		w.Confirm(&h.lease, start, time.Second, false)
		require.Equal(t, start.Add(Trust(lease)), w.Deadline(&h.lease), "never back")
		w.Confirm(&h.lease, start, 2*lease, true)
		require.Equal(t, start.Add(Trust(2*lease)), w.Deadline(&h.lease))
		time.Sleep(time.Hour)
		require.InDelta(t, time.Hour/(2*lease/3), s.count(), 1, "renewed at its new length")
		w.Forget(&h.lease)
		w.Confirm(&h.lease, time.Now(), lease, true)
		require.False(t, w.Forget(&h.lease), "what is not watched is left alone")
	})
}

func TestPoke(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog, s *fakeServer) {
		h, other := watch(t, w, true), watch(t, w, true)
		s.say(gone)
		w.Poke(func(o Owner) bool { return o == h })
		synctest.Wait()
		lost, _ := h.told()
		require.Equal(t, []error{ErrGone}, lost)
		lost, _ = other.told()
		require.Empty(t, lost)
	})
}

// TestStop: the rest is returned and nobody is told.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{answer: silent}
		w := New(Config{Renew: s.renew})
		h := watch(t, w, true)
		time.Sleep(lease/3 + time.Millisecond)
		require.Equal(t, []Owner{h}, w.Stop())
		w.Join() // the batch that was under way has its context ended
		lost, _ := h.told()
		require.Empty(t, lost)
		require.False(t, w.Watch(&h.lease, h, time.Now(), lease, true))
		require.Empty(t, w.Stop(), "twice is harmless")
	})
	New(Config{}).Join() // never started
}

// TestHundredThousand: leases taken within a second share batches, and none is renewed later than at half its length.
func TestHundredThousand(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog, s *fakeServer) {
		const n = 100_000
		var latest time.Duration // guarded by w.mu
		s.say(func(ctx context.Context, batch []Renewal) {
			now := time.Now()
			w.mu.Lock()
			for _, r := range batch {
				latest = max(latest, now.Sub(r.lease.deadline.Add(-Trust(lease))))
			}
			w.mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			confirm(ctx, batch)
		})
		holders := make([]holder, n)
		for i := range holders {
			require.True(t, w.Watch(&holders[i].lease, &holders[i], time.Now(), lease, true))
			if i%100 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(time.Minute)
		for i := range holders {
			lost, _ := holders[i].told()
			require.Empty(t, lost)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Less(t, latest, lease/2)
		require.LessOrEqual(t, s.peak(), inFlight)
		t.Logf("latest renewal %v after its confirmation, %d batches a minute, %d at once", latest, s.count(), s.peak())
	})
}

// TestHeap: whatever is added, moved and removed, the first is the earliest and each lease knows its place.
func TestHeap(t *testing.T) {
	var h leases
	now := time.Now()
	in := map[*Lease]bool{}
	for range 20_000 {
		l := &Lease{next: now.Add(rand.N(time.Hour))}
		switch {
		case len(in) == 0 || rand.N(3) > 0:
			h.add(l)
			in[l] = true
		default:
			for l := range in {
				if rand.N(2) == 0 {
					h.remove(l)
					require.Zero(t, l.place)
					delete(in, l)
				} else {
					l.next = now.Add(rand.N(time.Hour))
					h.fix(l)
				}
				break
			}
		}
	}
	require.Len(t, h, len(in))
	for i, l := range h {
		require.Equal(t, i+1, l.place)
	}
	for last := now; len(h) > 0; {
		l := h[0]
		require.False(t, l.next.Before(last), "in order")
		last = l.next
		h.remove(l)
	}
}

func TestTrust(t *testing.T) {
	require.Equal(t, 29698*time.Millisecond, Trust(30*time.Second))
	require.Zero(t, Trust(time.Millisecond), "never negative")
	require.Positive(t, Trust(math.MaxInt64))
}
