package watchdog

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const claimed = 2 * time.Second

// TestClaim: what stands for a claim only is renewed after a third of that, and is a whole lease
// from then on.
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
		time.Sleep(claimed / 3)
		synctest.Wait()
		require.Equal(t, 1, s.count())
		require.Equal(t, lease, asked)
		require.Equal(t, start.Add(claimed/3).Add(Trust(lease)), w.Deadline(&h.lease))
		time.Sleep(lease)
		synctest.Wait()
		require.Equal(t, 4, s.count(), "every third of the lease from then on")
	})
}

// TestClaimIsTriedAgainInTime: answers that do not come are given up by the claim's measure, not by
// that of the lease, so that there is time for more than one. Control: as a lease of which nobody
// says that it is a claim.
func TestClaimIsTriedAgainInTime(t *testing.T) {
	silent := func(ctx context.Context, _ []Renewal) { <-ctx.Done() }
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		h := &holder{}
		s.say(silent)
		start := time.Now()
		require.True(t, w.Claim(&h.lease, h, start, claimed, lease))
		time.Sleep(claimed)
		synctest.Wait()
		require.Greater(t, s.count(), 2)
		lost, at := h.told()
		require.Equal(t, []error{ErrDeadline}, lost)
		require.Equal(t, start.Add(Trust(claimed)), at)
	})
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		h := &holder{}
		s.say(silent)
		require.True(t, w.Watch(&h.lease, h, time.Now(), lease, true))
		time.Sleep(claimed)
		synctest.Wait()
		require.Zero(t, s.count(), "control")
	})
}
