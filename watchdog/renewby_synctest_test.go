package watchdog

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
)

const hasty = 100 * time.Millisecond

// TestRenewBy: a lease is renewed sooner, once, and then as ever.
func TestRenewBy(t *testing.T) {
	for _, hasten := range []bool{true, false} { // the second one is the control
		bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
			h := watch(t, w, true)
			early := 0
			if hasten {
				w.RenewBy(&h.lease, hasty)
				early = 1
			}
			pass(hasty - time.Nanosecond)
			require.Zero(t, s.count())
			pass(time.Nanosecond)
			require.Equal(t, early, s.count())
			pass(lease/3 - hasty)
			require.Equal(t, 1, s.count(), "the next one is a third of the lease after the last one")
			pass(hasty)
			require.Equal(t, 1+early, s.count())
		})
	}
}

// TestRenewByIsKept: what confirms the lease meanwhile does not put the renewal off, nor does another wish.
func TestRenewByIsKept(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		h := watch(t, w, true)
		w.RenewBy(&h.lease, hasty)
		time.Sleep(hasty / 2)
		require.True(t, w.Confirm(&h.lease, time.Now(), lease, true))
		w.RenewBy(&h.lease, hasty)
		pass(hasty / 2)
		require.Equal(t, 1, s.count())
		pass(hasty)
		require.Equal(t, 1, s.count(), "once")
	})
}

// TestRenewByIsNotEarly: the renewal that was wished for does not come early to share another one's batch.
func TestRenewByIsNotEarly(t *testing.T) {
	for _, off := range []controls{{}, {without: &defence.RenewAt}} {
		bubble(t, off, func(t *testing.T, w *Watchdog, s *fakeServer) {
			var mu sync.Mutex // guards of
			of := map[Owner][]time.Duration{}
			start := time.Now()
			s.say(func(ctx context.Context, batch []Renewal) {
				mu.Lock()
				defer mu.Unlock()
				for _, r := range batch {
					of[r.Owner] = append(of[r.Owner], time.Since(start))
				}
				confirm(ctx, batch)
			})
			when := func(h *holder) []time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return of[h]
			}
			first, second := &holder{}, &holder{}
			for _, h := range []*holder{first, second} {
				require.True(t, w.Watch(&h.lease, h, start, lease, true))
			}
			require.Less(t, hasty, slack(lease))
			w.RenewBy(&first.lease, hasty)
			w.RenewBy(&second.lease, 2*hasty)
			pass(2*hasty + time.Nanosecond)
			require.Equal(t, []time.Duration{hasty}, when(first))
			if off.without != nil {
				require.Equal(t, []time.Duration{hasty}, when(second),
					"control: with the first one, and not when it was to be")
				return
			}
			require.Equal(t, []time.Duration{2 * hasty}, when(second))
			pass(lease / 3)
			require.Equal(t, 3, s.count(), "then they share a batch again")
			require.Equal(t, when(first)[1], when(second)[1])
		})
	}
}

// TestRenewAfter: a lease is renewed once when a time is over, whatever has it renewed before.
func TestRenewAfter(t *testing.T) {
	for what, sooner := range map[string]func(w *Watchdog, l *Lease){
		"nothing": func(*Watchdog, *Lease) {},
		"hasty":   func(w *Watchdog, l *Lease) { w.RenewBy(l, hasty) },
		"poked":   func(w *Watchdog, _ *Lease) { w.RenewNow(func(Owner) bool { return true }) },
		"wished":  func(w *Watchdog, l *Lease) { w.RenewAfter(l, hasty) }, // the later one of two counts
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
				h := watch(t, w, true)
				w.RenewAfter(&h.lease, 2*hasty)
				sooner(w, &h.lease)
				pass(2*hasty - time.Nanosecond)
				before := s.count()
				pass(time.Nanosecond)
				require.Equal(t, before+1, s.count())
				pass(lease/3 - time.Nanosecond)
				require.Equal(t, before+1, s.count(), "once")
				pass(time.Nanosecond)
				require.Equal(t, before+2, s.count(), "and then as ever")
			})
		})
	}
}

// TestRenewByInVain: who is not renewed, or not watched, is not hastened.
func TestRenewByInVain(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		plain, left, never := &holder{}, &holder{}, &holder{}
		require.True(t, w.Watch(&plain.lease, plain, time.Now(), lease, false))
		require.True(t, w.Watch(&left.lease, left, time.Now(), lease, true))
		require.True(t, w.Forget(&left.lease))
		for _, h := range []*holder{plain, left, never} {
			w.RenewBy(&h.lease, hasty)
		}
		pass(2 * hasty)
		require.Zero(t, s.count())
		require.True(t, w.Watch(&left.lease, left, time.Now(), lease, true))
		pass(2 * hasty)
		require.Zero(t, s.count(), "an earlier life's wish is not for this one")
	})
}

const claimed = 2 * time.Second

// TestClaim: what stands for a claim only is renewed after a third of that, and is a whole lease from then on.
func TestClaim(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		h := &holder{}
		start := time.Now()
		require.True(t, w.Claim(&h.lease, h, start, claimed, lease))
		require.Equal(t, start.Add(Trust(claimed)), w.Deadline(&h.lease))
		var asked time.Duration
		s.say(func(ctx context.Context, batch []Renewal) {
			asked = batch[0].Length
			confirm(ctx, batch)
		})
		pass(claimed / 3)
		require.Equal(t, 1, s.count())
		require.Equal(t, lease, asked)
		require.Equal(t, start.Add(claimed/3).Add(Trust(lease)), w.Deadline(&h.lease))
		pass(lease)
		require.Equal(t, 4, s.count(), "every third of the lease from then on")
	})
}

// TestClaimIsTriedAgainInTime: answers that do not come are given up by the claim's measure, not by that of the lease, so that
// there is time for more than one. Control: as a lease of which nobody says that it is a claim.
func TestClaimIsTriedAgainInTime(t *testing.T) {
	silent := func(ctx context.Context, _ []Renewal) { <-ctx.Done() }
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		h := &holder{}
		s.say(silent)
		start := time.Now()
		require.True(t, w.Claim(&h.lease, h, start, claimed, lease))
		pass(claimed)
		require.Greater(t, s.count(), 2)
		at := h.heard(t, ErrDeadline)
		require.Equal(t, start.Add(Trust(claimed)), at)
	})
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		h := &holder{}
		s.say(silent)
		require.True(t, w.Watch(&h.lease, h, time.Now(), lease, true))
		pass(claimed)
		require.Zero(t, s.count(), "control")
	})
}

// TestRest: a lease that is no longer renewed is lost at its deadline; one that is confirmed as renewed again is renewed.
func TestRest(t *testing.T) {
	for _, rest := range []bool{true, false} { // the second one is the control
		bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
			h := watch(t, w, true)
			pass(lease / 2)
			require.Equal(t, 1, s.count())
			if rest {
				w.StopRenewing(&h.lease)
			}
			pass(lease / 2)
			require.Equal(t, !rest, s.count() > 1)
			require.True(t, w.Confirm(&h.lease, time.Now(), lease, !rest))
			before := s.count()
			pass(2 * lease)
			require.Equal(t, !rest, s.count() > before)
			w.Forget(&h.lease)
		})
	}
}

// TestRestDuringRenewal: a renewal fails whose lease is no longer to be renewed. It is not repeated, and the lease ends.
func TestRestDuringRenewal(t *testing.T) {
	for _, rest := range []bool{true, false} { // the second one is the control
		bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
			s.say(func(context.Context, []Renewal) { time.Sleep(time.Second) })
			h, reason := watch(t, w, true), ErrDeadline
			pass(lease/3 + time.Millisecond)
			require.Equal(t, 1, s.underWay())
			if rest {
				w.StopRenewing(&h.lease)
				reason = ErrEnded
			}
			pass(lease)
			require.Equal(t, rest, s.count() == 1)
			h.heard(t, reason)
		})
	}
}
