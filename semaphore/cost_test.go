package semaphore_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/semaphore"
)

// TestCostOfAGrant: where 64 goroutines of one process or of eight want 8 permits, a grant is a script
// or less, and so is a release. (Places may be asked for together; polls, and the questions of the first
// waiter of a client, are few.) Nobody starves: the least share is half of the mean at least.
func TestCostOfAGrant(t *testing.T) {
	for _, clients := range []int{1, 8} {
		srv := redistest.Start(t)
		l := &lab{t, srv, srv.Client(t), uniqueName(t), 8}
		const goroutines, enough = 64, 1600
		var grants atomic.Int64
		shares := make([]int, goroutines)
		var group sync.WaitGroup
		before := srv.CommandCalls(t)
		for c := range clients {
			s := l.process(nil)
			for g := range goroutines / clients {
				group.Go(func() {
					use(t.Context(), t, s, &grants, enough, &shares[c*goroutines/clients+g])
				})
			}
		}
		group.Wait()
		after := srv.CommandCalls(t)
		scripts := after["evalsha"] + after["eval"] - before["evalsha"] - before["eval"]
		per := float64(scripts) / float64(grants.Load())
		least := float64(slices.Min(shares)) * goroutines / float64(grants.Load())
		t.Logf("proof: permits, %d clients: %.3f scripts for a grant and its release, least share %.2f", clients, per, least)
		require.LessOrEqual(t, per, 2.1)
		require.GreaterOrEqual(t, least, 0.5)
		l.settled()
	}
}

// use takes permits until all have taken enough of them.
func use(ctx context.Context, t *testing.T, s *semaphore.Semaphore, grants *atomic.Int64, enough int64, share *int) {
	for grants.Load() < enough {
		h, err := s.Lock(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		*share++
		grants.Add(1)
		if err := h.Unlock(ctx); err != nil {
			t.Error(err)
			return
		}
	}
}
