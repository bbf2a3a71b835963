package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// What the library cannot promise, shown as it is documented: somebody rolls the server's data back, or moves its clock, and
// two holders are inside. What it does promise then: the second one's token is greater, the first one is told by its next
// renewal, and neither touches the other's grant.

// weakLease is renewed often, so that a test need not wait long for the news.
const weakLease = 6 * time.Second

// TestTwoInside makes every fault that lets a second holder in.
func TestTwoInside(t *testing.T) {
	for fault, happen := range map[string]func(t *testing.T, srv *redistest.Server){
		"flushall":              func(t *testing.T, srv *redistest.Server) { srv.Command(t, "FLUSHALL") },
		"key deleted":           func(t *testing.T, srv *redistest.Server) { srv.Command(t, "DEL", "weak") },
		"restart without data":  func(_ *testing.T, srv *redistest.Server) { srv.Restart() },
		"clock jumps the lease": func(t *testing.T, srv *redistest.Server) { srv.MoveClock(t, 2*weakLease) },
	} {
		t.Run(fault, func(t *testing.T) {
			eachProgram(t, func(t *testing.T, program redistest.Program) {
				srv := redistest.Start(t, redistest.Exec(program.Path), redistest.Clock())
				first, second := srv.Client(t), srv.Client(t)
				h := mustLock(t, rlock.New(newClient(t, first, &holdfast.Options{Lease: weakLease}), "weak"))
				happen(t, srv)
				twoInside(t, h, rlock.New(newClient(t, second, nil), "weak"))
			})
		})
	}
}

// TestFailoverLosesWrites: the primary dies before its replica has the lock.
func TestFailoverLosesWrites(t *testing.T) {
	eachProgram(t, func(t *testing.T, program redistest.Program) {
		servers := redistest.StartReplicated(t, 1, redistest.Exec(program.Path))
		h := mustLock(t, rlock.New(newClient(t, servers.Client(t), nil), "weak")) // so that the replica knows a token
		require.NoError(t, h.Unlock(t.Context()))
		servers.AwaitReplicas(t.Context(), t)
		replica := servers.Replicas()[0]
		servers.Detach(t, replica)
		h = mustLock(t, rlock.New(newClient(t, servers.Client(t), &holdfast.Options{Lease: weakLease}), "weak"))
		servers.Primary().Kill()
		servers.Promote(t, replica)
		twoInside(t, h, rlock.New(newClient(t, servers.Client(t), nil), "weak"))
	})
}

// TestFailoverKeepsWrites is the control: with the lock on the replica the failover lets nobody in, and the hold goes on.
func TestFailoverKeepsWrites(t *testing.T) {
	eachProgram(t, func(t *testing.T, program redistest.Program) {
		servers := redistest.StartReplicated(t, 1, redistest.Exec(program.Path))
		h := mustLock(t, rlock.New(newClient(t, servers.Client(t), nil), "weak"))
		servers.AwaitReplicas(t.Context(), t)
		servers.Primary().Kill()
		servers.Promote(t, servers.Replicas()[0])
		_, err := rlock.New(newClient(t, servers.Client(t), nil), "weak").TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		require.NoError(t, h.Unlock(t.Context()))
	})
}

// TestClockSetBack: a lease then lasts longer at the server than its holder trusts it, which is safe, and tokens grow on.
func TestClockSetBack(t *testing.T) {
	eachProgram(t, func(t *testing.T, program redistest.Program) {
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

// twoInside shows that a second owner gets the lock while the first one still trusts its hold, and what is promised then.
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

// mustLock gets a lock that is free, through whatever is left of a fault.
func mustLock(t *testing.T, m *rlock.Mutex) *holdfast.Hold {
	t.Helper()
	h, err := m.Lock(t.Context(), holdfast.Wait(patience))
	require.NoError(t, err)
	return h
}

func eachProgram(t *testing.T, f func(t *testing.T, program redistest.Program)) {
	t.Helper()
	for _, program := range redistest.Programs(t) {
		t.Run(program.Name, func(t *testing.T) {
			t.Parallel()
			f(t, program)
		})
	}
}
