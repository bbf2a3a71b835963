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

func TestLockAndUnlock(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	name := uniqueName(t)
	m, other := fairlock.New(newClient(t, rdb, nil), name), fairlock.New(newClient(t, rdb, nil), name)
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	_, err = other.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	inner, err := m.Lock(h.Context())
	require.NoError(t, err)
	s, err := other.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, holdfast.State{Owner: h.Owner(), Count: 2, Remaining: s.Remaining, Token: h.Token()}, s)
	require.NoError(t, inner.Unlock(t.Context()))
	require.NoError(t, h.Unlock(t.Context()))
	s, err = other.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, holdfast.State{Token: h.Token()}, s)
}

// TestOrder: waiters of several clients are granted in the order in which they came to the server.
func TestOrder(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	name := uniqueName(t)
	const clients, each = 8, 8
	var all []*fairlock.Mutex
	for range clients {
		all = append(all, fairlock.New(newClient(t, rdb, nil), name))
	}
	h, err := all[0].Lock(t.Context())
	require.NoError(t, err)
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
	require.NoError(t, h.Unlock(t.Context()))
	group.Wait()
	require.Equal(t, want, order)
	require.NotZero(t, runs)
	require.Empty(t, queued(t, rdb, name))
	require.Zero(t, rdb.Exists(t.Context(), name, "redisson_lock_timeout:{"+name+"}").Val())
}

// TestCancelledInFront: who leaves holds nobody up.
func TestCancelledInFront(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	name := uniqueName(t)
	m, other := fairlock.New(newClient(t, rdb, nil), name), fairlock.New(newClient(t, rdb, nil), name)
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := m.Lock(ctx); left <- err }()
	eventually(t, "the first waits", func() bool { return len(queued(t, rdb, name)) == 1 })
	granted := make(chan *holdfast.Hold, 1)
	go func() {
		h, err := other.Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		granted <- h
	}()
	eventually(t, "the second waits", func() bool { return len(queued(t, rdb, name)) == 2 })
	cancel()
	require.ErrorIs(t, <-left, holdfast.ErrNotAcquired)
	eventually(t, "the first has left", func() bool { return len(queued(t, rdb, name)) == 1 })
	require.NoError(t, h.Unlock(t.Context()))
	h = <-granted
	start := time.Now()
	eventually(t, "the claim becomes a lease", func() bool {
		s, err := m.State(t.Context())
		return err == nil && s.Remaining > 10*time.Second
	})
	t.Logf("renewed after %v", time.Since(start))
	require.NoError(t, h.Unlock(t.Context()))
}
