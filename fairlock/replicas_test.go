package fairlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// TestWithReplicasInLine: who is handed the lock by a message has it when the replicas have. If
// they do not get it, the next one in line has its turn.
func TestWithReplicasInLine(t *testing.T) {
	r := redistest.StartReplicated(t, 1)
	r.Primary().Command(t, "WAIT", "1", "0") // a replica counts when it has spoken for the first time
	const soon = 300 * time.Millisecond
	rdb := r.Primary().Client(t)
	proxy := faultproxy.New(t, r.Primary().Addr())
	holder := fairlock.New(newClient(t, rdb, nil), "a")
	m := fairlock.New(newClient(t, redistest.NewClient(t, proxy.Addr()), nil), "a")
	other := fairlock.New(newClient(t, rdb, nil), "a")
	asks := faultproxy.Script(lua.FairAcquire.Hash())

	var h *holdfast.Hold
	// on a busy machine the message may overtake the answer that the place is there
	for told, tries := false, 0; !told; tries++ {
		require.Less(t, tries, 20, "it is told by a message")
		first := lock(t, holder, holdfast.WithReplicas(1, patience))
		w := wait(t.Context(), t, rdb, m, holdfast.WithReplicas(1, patience))
		asked := proxy.Seen(asks)
		unlock(t, first)
		h = w.Hold()
		if told = asked == proxy.Seen(asks); !told {
			unlock(t, h)
		}
	}
	require.Equal(t, "1", r.Replicas()[0].Command(t, "HGET", "a", h.Owner()))
	left, err := rdb.PTTL(t.Context(), "a").Result()
	require.NoError(t, err)
	require.Greater(t, left, 3*time.Second, "more than a claim: it is the whole lease already")

	w := wait(t.Context(), t, rdb, m, holdfast.WithReplicas(1, soon))
	behind := wait(t.Context(), t, rdb, other)
	r.Replicas()[0].Pause()
	unlock(t, h)
	require.ErrorIs(t, w.Err(), holdfast.ErrNotReplicated)
	next := behind.Hold()
	require.NoError(t, next.Context().Err())
	unlock(t, next)
	require.Empty(t, queued(t, rdb, "a"))

	_, err = m.TryLock(t.Context(), holdfast.WithReplicas(1, soon))
	require.ErrorIs(t, err, holdfast.ErrNotReplicated)
	require.Zero(t, rdb.Exists(t.Context(), "a").Val())
	again, err := other.TryLock(t.Context())
	require.NoError(t, err)
	unlock(t, again)
}
