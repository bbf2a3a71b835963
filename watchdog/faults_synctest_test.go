package watchdog

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
)

// Each test makes a fault that a defence withstands. Its control, with the defence off, must see the harm.

// TestSilenceIsToldInTime: the server stops answering. All holders are told at their deadlines, to
// the instant, although every renewal is stuck, and also if it cannot be cancelled.
func TestSilenceIsToldInTime(t *testing.T) {
	late := func(off controls, answer func(context.Context, []Renewal)) (late time.Duration) {
		bubble(t, off, func(t *testing.T, w *Watchdog, s *fakeServer) {
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
				at := h.heard(t, ErrDeadline)
				late = max(late, at.Sub(starts[i].Add(Trust(lease))))
			}
			require.LessOrEqual(t, s.peak(), maxInFlight)
		})
		return late
	}
	require.Zero(t, late(controls{}, silent))
	require.Zero(t, late(controls{}, deaf(time.Minute)))
	require.Greater(t, late(controls{without: &defence.AsyncRenewal}, deaf(time.Minute)), time.Second,
		"control: told after the server may have granted")
}

// TestSilenceOfOne: one lease whose server is silent has one attempt under way, not more and more.
func TestSilenceOfOne(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		var causes []error
		s.say(func(ctx context.Context, batch []Renewal) {
			silent(ctx, batch)
			causes = append(causes, context.Cause(ctx))
		})
		watch(t, w, true)
		time.Sleep(lease)
		require.Equal(t, 1, s.peak())
		require.InDelta(t, 8, s.count(), 2, "tried again all the while")
		for _, cause := range causes {
			require.ErrorIs(t, cause, errPatience)
		}
	})
}

// TestDeafAttempt: an attempt that hangs and cannot be cancelled does not stop the next one, which
// is confirmed; what the first one says when it comes back at last changes nothing.
func TestDeafAttempt(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		s.say(func(ctx context.Context, batch []Renewal) {
			if s.count() == 1 {
				time.Sleep(lease)
				return
			}
			confirm(ctx, batch)
		})
		start := time.Now()
		h := watch(t, w, true)
		time.Sleep(10 * time.Minute)
		h.heard(t)
		second := lease/3 + overdue(lease)
		require.Equal(t, second, s.call(1).at.Sub(start))
		for i := 2; i < s.count(); i++ {
			require.Equal(t, second+time.Duration(i-1)*lease/3, s.call(i).at.Sub(start), "nothing comes between")
		}
	})
}

// TestPlacesComeFree: four batches hang, a lease falls due, and is renewed in the moment that one of the four ends.
func TestPlacesComeFree(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		const hang = 12 * time.Second
		start := time.Now()
		s.say(func(ctx context.Context, batch []Renewal) {
			if s.count() <= maxInFlight {
				time.Sleep(hang)
				gone(ctx, batch) // so that the end of the batch sets no new moment by itself
				return
			}
			confirm(ctx, batch)
		})
		hung := make([]*holder, maxInFlight)
		for i := range hung {
			hung[i] = watch(t, w, true)
			time.Sleep(time.Second + time.Millisecond) // more than the slack, else they share a batch
		}
		h := watch(t, w, true)
		time.Sleep(lease)
		require.Equal(t, maxInFlight, s.peak())
		require.Equal(t, lease/3+hang, s.call(maxInFlight).at.Sub(start))
		h.heard(t)
	})
}

// TestBackoff: a server that refuses is asked again after 20 ms, then less and less often, at least once a second.
func TestBackoff(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		s.say(func(context.Context, []Renewal) {})
		h := watch(t, w, true)
		time.Sleep(time.Minute)
		h.heard(t, ErrDeadline)
		require.InDelta(t, 32, s.count(), 12)
		last := firstBackoff
		for i := 1; i < s.count(); i++ {
			gap := s.call(i).at.Sub(s.call(i - 1).at)
			require.True(t, gap >= last/2 && gap <= last, "%v after the failure %d", gap, i)
			last = min(2*last, lastBackoff)
		}
	})
}

// TestLateAnswer: lost is lost, whatever an answer says that comes after the deadline. The clock is kept from telling the loss
// meanwhile, by an owner that blocks in Lost; the control brings the lease back, which the owner has seen to be over.
func TestLateAnswer(t *testing.T) {
	told := func(off controls) (lost []error) {
		bubble(t, off, func(t *testing.T, w *Watchdog, s *fakeServer) {
			const paused = 12 * time.Second
			start := time.Now()
			s.say(func(ctx context.Context, batch []Renewal) {
				time.Sleep(time.Until(start.Add(lease)))
				confirm(ctx, batch)
			})
			h := watch(t, w, true)
			blocker := &holder{pause: paused}
			w.Watch(&blocker.lease, blocker, time.Now().Add(-5*time.Second), lease, false)
			time.Sleep(lease + time.Second) // the answer came, and the clock still hangs
			if off.without == nil {
				require.False(t, w.Forget(&h.lease), "the loss is seen although it is not told yet")
				require.False(t, w.Confirm(&h.lease, time.Now(), lease, true))
			}
			time.Sleep(paused)
			lost, _ = h.told()
		})
		return lost
	}
	require.Equal(t, []error{ErrDeadline}, told(controls{}))
	require.Empty(t, told(controls{without: &defence.TooLate}), "control: back from the dead")
}

// TestPausedProcess: the process stands still beyond the lease between making a batch and sending it. Nothing is sent then.
func TestPausedProcess(t *testing.T) {
	sent := func(off controls) (sent int) {
		off.beforeRun = func() { time.Sleep(lease) }
		bubble(t, off, func(t *testing.T, w *Watchdog, s *fakeServer) {
			h := watch(t, w, true)
			time.Sleep(3 * lease)
			h.heard(t, ErrDeadline)
			sent = s.count()
		})
		return sent
	}
	require.Zero(t, sent(controls{}))
	require.Positive(t, sent(controls{without: &defence.Recheck}),
		"control: renewed when the server may have granted it to another")
}

// TestPausedClock: the clock goroutine stands still beyond the leases. All are told when it goes on, and none is renewed.
func TestPausedClock(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		start := time.Now()
		blocker := &holder{pause: time.Minute}
		w.Watch(&blocker.lease, blocker, start, 10*time.Second, false)
		holders := make([]*holder, 2000)
		for i := range holders {
			holders[i] = watch(t, w, true)
		}
		time.Sleep(2 * time.Minute)
		for _, h := range holders {
			at := h.heard(t, ErrDeadline)
			require.Equal(t, Trust(10*time.Second)+time.Minute, at.Sub(start))
		}
		require.Zero(t, s.count())
	})
}

// TestForgetDuringBatch: after Forget the verdict of a batch under way is ignored, also by a later life of the lease.
func TestForgetDuringBatch(t *testing.T) {
	told := func(off controls) (lost []error) {
		bubble(t, off, func(t *testing.T, w *Watchdog, s *fakeServer) {
			s.say(func(ctx context.Context, batch []Renewal) {
				time.Sleep(time.Second)
				gone(ctx, batch)
			})
			h := watch(t, w, true)
			time.Sleep(lease/3 + time.Millisecond)
			require.Equal(t, 1, s.underWay())
			require.True(t, w.Forget(&h.lease))
			require.False(t, w.Forget(&h.lease))
			require.True(t, w.Watch(&h.lease, h, time.Now(), lease, true), "a new life")
			s.say(confirm)
			time.Sleep(2 * time.Second) // the verdict on the old one arrives
			if lost, _ = h.told(); len(lost) > 0 {
				return
			}
			require.True(t, w.Forget(&h.lease))
			before := s.count()
			time.Sleep(time.Hour)
			require.Equal(t, before, s.count(), "no renewal after Forget")
			lost, _ = h.told()
		})
		return lost
	}
	require.Empty(t, told(controls{}))
	require.Equal(t, []error{ErrGone}, told(controls{without: &defence.Life}), "control: a new grant ends for an old one")
}

// TestForgetBeforeSending: the lease is forgotten when its batch is made and not yet sent.
func TestForgetBeforeSending(t *testing.T) {
	sent := func(off controls) (sent int) {
		off.beforeRun = func() { time.Sleep(time.Second) }
		bubble(t, off, func(t *testing.T, w *Watchdog, s *fakeServer) {
			h := watch(t, w, true)
			time.Sleep(lease/3 + time.Millisecond)
			require.True(t, w.Forget(&h.lease))
			require.Zero(t, s.count())
			time.Sleep(time.Hour)
			w.mu.Lock()
			require.Empty(t, w.lanes, "its place is free again")
			w.mu.Unlock()
			sent = s.count()
		})
		return sent
	}
	require.Zero(t, sent(controls{}))
	require.Equal(t, 1, sent(controls{without: &defence.Recheck}), "control: a renewal that started after Forget")
}

// TestExtendedMeanwhile: a long extension and a short renewal are confirmed in order. The long lease counts from its sending.
func TestExtendedMeanwhile(t *testing.T) {
	const long = 10 * time.Minute
	over := func(off controls) (over time.Duration) {
		bubble(t, off, func(t *testing.T, w *Watchdog, s *fakeServer) {
			s.say(func(ctx context.Context, batch []Renewal) {
				time.Sleep(time.Second)
				confirm(ctx, batch)
			})
			h := watch(t, w, true)
			time.Sleep(lease/3 - 500*time.Millisecond)
			sent := time.Now()
			time.Sleep(time.Second) // a renewal is under way since half of it
			w.Confirm(&h.lease, sent, long, true)
			time.Sleep(time.Second)
			require.Equal(t, 1, s.count())
			over = w.Deadline(&h.lease).Sub(sent.Add(Trust(long)))
		})
		return over
	}
	require.Zero(t, over(controls{}))
	require.Equal(t, 500*time.Millisecond, over(controls{without: &defence.Length}), "control: trusted longer than it lasts")
}

// TestLongLease: a batch has a long lease once, although the slack for it is more than the time that an attempt may take.
func TestLongLease(t *testing.T) {
	size := func(off controls) (size int) {
		bubble(t, off, func(t *testing.T, w *Watchdog, s *fakeServer) {
			h := &holder{}
			w.Watch(&h.lease, h, time.Now(), time.Hour, true)
			time.Sleep(30 * time.Minute)
			require.Equal(t, 1, s.count())
			size = s.call(0).count
		})
		return size
	}
	require.Equal(t, 1, size(controls{}))
	require.Equal(t, defaultBatch, size(controls{without: &defence.Narrow}), "control: again and again until the batch is full")
}

// TestManyThousands: leases taken within a second share batches, none is renewed later than at half its length, and goroutines
// do not grow with leases. So it is too among as many plain leases that end in the same second.
func TestManyThousands(t *testing.T) {
	for name, plain := range map[string]bool{"alone": false, "among plain ones": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
				const n = 20_000
				var latest atomic.Int64
				var most atomic.Int64
				s.say(func(ctx context.Context, batch []Renewal) {
					most.Store(max(most.Load(), int64(runtime.NumGoroutine())))
					now := time.Now()
					w.mu.Lock()
					for _, r := range batch {
						latest.Store(max(latest.Load(), int64(w.at(now)-r.lease.deadline+Trust(lease))))
					}
					w.mu.Unlock()
					time.Sleep(100 * time.Millisecond)
					confirm(ctx, batch)
				})
				before := runtime.NumGoroutine()
				holders := make([]holder, n)
				var plains []holder
				if plain {
					plains = make([]holder, n)
				}
				for i := range holders {
					require.True(t, w.Watch(&holders[i].lease, &holders[i], time.Now(), lease, true))
					if plain {
						w.Watch(&plains[i].lease, &plains[i], time.Now(), lease/3, false)
					}
					if i%20 == 0 {
						time.Sleep(time.Millisecond)
					}
				}
				time.Sleep(time.Minute)
				for i := range holders {
					holders[i].heard(t)
				}
				for i := range plains {
					plains[i].heard(t, ErrEnded)
				}
				rounds := int(time.Minute / (lease / 3))
				require.Less(t, time.Duration(latest.Load()), lease/2)
				require.Less(t, s.count(), rounds*n/defaultBatch*3/2, "batches are full, or nearly")
				require.LessOrEqual(t, s.peak(), maxInFlight)
				require.LessOrEqual(t, most.Load(), int64(before+1+2*maxInFlight),
					"the clock, the batches, and those about to end")
				t.Logf("latest renewal %v after its confirmation, %d batches a minute, %d at once",
					time.Duration(latest.Load()), s.count(), s.peak())
			})
		})
	}
}

// TestFromWithin: Renew and Lost may call the watchdog, whose mutex is free then.
func TestFromWithin(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		var again *holder
		again = &holder{react: func(reason error) {
			require.False(t, w.Forget(&again.lease))
			if errors.Is(reason, ErrGone) {
				require.True(t, w.Watch(&again.lease, again, time.Now(), lease, false))
			}
		}}
		s.say(func(ctx context.Context, batch []Renewal) {
			require.NotZero(t, w.Deadline(&again.lease))
			gone(ctx, batch)
		})
		require.True(t, w.Watch(&again.lease, again, time.Now(), lease, true))
		pass(time.Hour)
		again.heard(t, ErrGone, ErrEnded)
	})
}
