package fairlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestOrder: waiters of several clients are granted in the order in which they came to the server.
func TestOrder(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	name := uniqueName(t)
	const clients, each = 8, 8
	var all []*fairlock.Mutex
	for range clients {
		all = append(all, fairlock.New(newClient(t, rdb, nil), name))
	}
	h := lock(t, all[0])
	var mu sync.Mutex
	var order, want []int
	var runs, last uint64 // how many holds were handed on, and the last token
	var group sync.WaitGroup
	owner := ""
	for i := range clients * each {
		// Of one client come one, two, or up to seven in a row, and of the others any.
		m := all[i*i/7%clients]
		want = append(want, i)
		group.Go(func() {
			h, err := m.Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			if h.Owner() == owner {
				runs++
			}
			if h.Token() <= last {
				t.Errorf("token %d after %d", h.Token(), last)
			}
			owner, last = h.Owner(), h.Token()
			mu.Unlock()
			if err := h.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
		eventually(t, "it waits", func() bool { return len(queued(t, rdb, name)) == i+1 })
	}
	unlock(t, h)
	group.Wait()
	require.Equal(t, want, order)
	require.NotZero(t, runs)
	require.Empty(t, queued(t, rdb, name))
	require.Zero(t, rdb.Exists(t.Context(), name, "redisson_lock_timeout:{"+name+"}").Val())
}

// TestCancelledInFront: who leaves holds nobody up, and the claim of the next one becomes a lease.
func TestCancelledInFront(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	name := uniqueName(t)
	m, other := fairlock.New(newClient(t, rdb, nil), name), fairlock.New(newClient(t, rdb, nil), name)
	h := lock(t, m)
	ctx, cancel := context.WithCancel(t.Context())
	first, second := wait(ctx, t, rdb, m), wait(t.Context(), t, rdb, other)
	cancel()
	require.ErrorIs(t, first.Err(), holdfast.ErrNotAcquired)
	eventually(t, "the first has left", func() bool { return len(queued(t, rdb, name)) == 1 })
	unlock(t, h)
	h = second.Hold()
	eventually(t, "the claim becomes a lease", func() bool {
		s, err := m.State(t.Context())
		return err == nil && s.Remaining > 10*time.Second
	})
	unlock(t, h)
}
