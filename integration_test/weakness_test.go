package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// What the library cannot promise, shown as it is documented: somebody rolls the server's data
// back, or moves its clock, and two holders are inside. What it does promise then: the second one's
// token is greater, the first one is told by its next renewal, and neither touches the other's
// grant.

// weakLease is renewed often, so that a test need not wait long for the news. electionLease is not
// renewed before the servers have elected another, which takes seconds on a busy machine.
const (
	weakLease     = 6 * time.Second
	electionLease = 45 * time.Second
)

// TestTwoInside makes every fault that lets a second holder in.
func TestTwoInside(t *testing.T) {
	for fault, happen := range map[string]func(t *testing.T, srv *redistest.Server){
		"flushall":              func(t *testing.T, srv *redistest.Server) { srv.Command(t, "FLUSHALL") },
		"key deleted":           func(t *testing.T, srv *redistest.Server) { srv.Command(t, "DEL", "weak") },
		"restart without data":  func(_ *testing.T, srv *redistest.Server) { srv.Restart() },
		"clock jumps the lease": func(t *testing.T, srv *redistest.Server) { srv.MoveClock(t, 2*weakLease) },
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			onOutermost(t, func(t *testing.T, program redistest.Program) {
				t.Parallel()
				srv := redistest.Start(t, redistest.Exec(program.Path), redistest.Clock())
				first, second := srv.Client(t), srv.Client(t)
				h := mustLock(t, rlock.New(newClient(t, first, &holdfast.Options{Lease: weakLease}), "weak"))
				happen(t, srv)
				twoInside(t, h, rlock.New(newClient(t, second, nil), "weak"))
			})
		})
	}
}

// TestFailoverLosesWrites: the server dies before its replica has the lock.
func TestFailoverLosesWrites(t *testing.T) {
	topology.Each(t, topology.Replicated|topology.Sentinel|topology.Cluster, func(t *testing.T, top topology.Topology) {
		m := rlock.New(newClient(t, top.Connect(t), &holdfast.Options{Lease: electionLease}), "weak")
		require.NoError(t, mustLock(t, m).Unlock(t.Context()))
		var h *holdfast.Hold
		top.(topology.Loser).LoseWrites(t, "weak", func() { h = mustLock(t, m) })
		twoInside(t, h, rlock.New(newClient(t, top.Connect(t), nil), "weak"))
	})
}

// TestClockSetBack: a lease then lasts longer at the server than its holder trusts it, which is
// safe, and tokens grow on.
func TestClockSetBack(t *testing.T) {
	onOutermost(t, func(t *testing.T, program redistest.Program) {
		t.Parallel()
		srv := redistest.Start(t, redistest.Exec(program.Path), redistest.Clock())
		m := rlock.New(newClient(t, srv.Client(t), nil), "weak")
		h := mustLock(t, m)
		srv.MoveClock(t, -time.Hour)
		_, err := m.TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		require.NoError(t, h.Unlock(t.Context()))
		next := mustLock(t, m)
		require.Greater(t, next.Token(), h.Token())
		require.NoError(t, next.Unlock(t.Context()))
	})
}

// twoInside shows that a second owner gets the lock while the first one still trusts its hold, and
// what is promised then.
func twoInside(t *testing.T, h *holdfast.Hold, rival *rlock.Mutex) {
	t.Helper()
	next := mustLock(t, rival)
	require.NoError(t, h.Context().Err(), "the weakness: both are inside")
	require.Greater(t, next.Token(), h.Token(), "the resource can tell them apart")
	select {
	case <-h.Context().Done():
	case <-time.After(patience):
		t.Fatal("the first holder is not told")
	}
	require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrLost)
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
	s, err := rival.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, next.Owner(), s.Owner, "the second one's lock is not touched")
	require.NoError(t, next.Unlock(t.Context()))
}
