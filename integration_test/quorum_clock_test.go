package integration_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
)

// weakQuorum is the lock of a process with a client for each address.
func weakQuorum(t *testing.T, addrs []string) *redlock.Mutex {
	var clients []*holdfast.Client
	for _, addr := range addrs {
		clients = append(clients, newClient(t, redistest.NewClient(t, addr), &holdfast.Options{Lease: weakLease}))
	}
	return redlock.New(clients, "weak")
}

// movable starts five masters whose clocks can be moved.
func movable(t *testing.T, p redistest.Program) (masters []*redistest.Server, addrs []string, direct []*redis.Client) {
	masters = redistest.StartMasters(t, 5, redistest.Exec(p.Path), redistest.Clock())
	for _, m := range masters {
		addrs, direct = append(addrs, m.Addr()), append(direct, m.Client(t))
	}
	return masters, addrs, direct
}

// holdersOf is who holds the lock at each master, "" if nobody does.
func holdersOf(ctx context.Context, rdbs []*redis.Client, name string) []string {
	list := make([]string, len(rdbs))
	for i, rdb := range rdbs {
		if fields := rdb.HKeys(ctx, name).Val(); len(fields) > 0 {
			list[i] = fields[0]
		}
	}
	return list
}

// acquainted has a lock's clients ask all masters since when they run. Who does so after a clock has jumped takes that master
// for much older than the others, and these, which are seconds old in a test, for ones that were started anew.
func acquainted(t *testing.T, m *redlock.Mutex) *redlock.Mutex {
	kindtest.Unlock(t, kindtest.Lock(t, m))
	return m
}

// aged waits until masters are older than a lease: younger ones that have forgotten a lock vote for nobody else.
func aged(t *testing.T, rdbs []*redis.Client) {
	young := func(rdb *redis.Client) bool {
		up, err := strconv.Atoi(redistest.InfoField(rdb.Info(t.Context(), "server").Val(), "uptime_in_seconds"))
		return err != nil || time.Duration(up-1)*time.Second <= weakLease // it is rounded
	}
	older := func() bool { return !slices.ContainsFunc(rdbs, young) }
	require.Eventually(t, older, patience, 10*time.Millisecond, "older than a lease")
}

// TestQuorumClock: the clocks of two of five masters jump beyond the lease. A hold known to all stands, and both take it back.
func TestQuorumClock(t *testing.T) {
	level.ForAll(t)
	onOutermost(t, func(t *testing.T, p redistest.Program) {
		t.Parallel()
		masters, addrs, rdbs := movable(t, p)
		ctx, m := t.Context(), weakQuorum(t, addrs)
		rival := acquainted(t, weakQuorum(t, addrs))
		h := kindtest.Take(ctx, t, m.Lock)
		everywhere := func() bool {
			return !slices.ContainsFunc(holdersOf(ctx, rdbs, "weak"), func(owner string) bool { return owner != h.Owner() })
		}
		kindtest.Eventually(t, "all five know of it", everywhere)
		for _, i := range []int{1, 3} {
			masters[i].MoveClock(t, 10*weakLease)
		}
		kindtest.Refused(ctx, t, rival.TryLock)
		require.NoError(t, h.Context().Err())
		kindtest.Eventually(t, "the two take it back", everywhere)
		require.NoError(t, h.Context().Err())
		require.NoError(t, h.Unlock(ctx))
		var next *holdfast.Hold
		kindtest.Eventually(t, "another one is granted it", func() bool {
			var err error
			next, err = rival.TryLock(ctx)
			return err == nil
		})
		require.Greater(t, next.Token(), h.Token())
		require.NoError(t, next.Unlock(ctx))
	})
}

// TestQuorumClockWeakness: three masters of five have granted the lock, the two others are out of the holder's reach, and the
// clock of one of the three jumps beyond the lease. A second owner gets the lock while the first one still trusts its hold.
// What is promised then: the second one's token is greater, the first one is told by a renewal that reaches a majority, and the
// second one's lock is not touched.
func TestQuorumClockWeakness(t *testing.T) {
	level.ForAll(t)
	onOutermost(t, func(t *testing.T, p redistest.Program) {
		t.Parallel()
		masters, addrs, rdbs := movable(t, p)
		ctx, rival := t.Context(), acquainted(t, weakQuorum(t, addrs))
		var apart []*faultproxy.Proxy
		for i := 3; i < 5; i++ {
			apart = append(apart, faultproxy.New(t, addrs[i]))
			addrs[i] = apart[i-3].Addr()
			apart[i-3].Stop()
		}
		require.Eventually(t, func() bool { return strings.Join(holdersOf(ctx, rdbs, "weak"), "") == "" }, patience,
			time.Millisecond)
		aged(t, rdbs)
		h := kindtest.Take(ctx, t, weakQuorum(t, addrs).Lock)
		require.Eventually(t, func() bool { return holdersOf(ctx, rdbs, "weak")[2] == h.Owner() }, patience, time.Millisecond)
		require.Equal(t, []string{h.Owner(), h.Owner(), h.Owner(), "", ""}, holdersOf(ctx, rdbs, "weak"))

		kindtest.Refused(ctx, t, rival.TryLock) // without the jump it is refused
		var next *holdfast.Hold
		// a renewal may come between the two, and have the master take the hold back
		require.Eventually(t, func() bool {
			masters[2].MoveClock(t, 2*weakLease)
			var err error
			next, err = rival.TryLock(ctx)
			return err == nil
		}, patience, time.Millisecond)
		require.NoError(t, h.Context().Err(), "the weakness: both are inside")
		require.Greater(t, next.Token(), h.Token(), "the resource can tell them apart")

		for _, p := range apart {
			p.Start()
		}
		require.ErrorIs(t, kindtest.Ended(t, h), holdfast.ErrLost)
		require.ErrorIs(t, h.Unlock(ctx), holdfast.ErrLost)
		require.NoError(t, next.Context().Err())
		require.Equal(t, []string{next.Owner(), next.Owner(), next.Owner()}, holdersOf(ctx, rdbs, "weak")[2:])
		require.NoError(t, next.Unlock(ctx))
	})
}

// What the library cannot promise, as documented: data rolled back, or a clock moved, let two holders in. Yet the second's
// token is greater, the first one's next renewal tells it, and neither touches the other's grant.

// weakLease is renewed often and brings news soon; electionLease not before an election is over: seconds on a busy machine.
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

// TestClockSetBack: a lease then lasts longer at the server than its holder trusts it, which is safe, and tokens grow on.
func TestClockSetBack(t *testing.T) {
	onOutermost(t, func(t *testing.T, program redistest.Program) {
		t.Parallel()
		srv := redistest.Start(t, redistest.Exec(program.Path), redistest.Clock())
		m := rlock.New(newClient(t, srv.Client(t), nil), "weak")
		h := mustLock(t, m)
		srv.MoveClock(t, -time.Hour)
		kindtest.Refused(t.Context(), t, m.TryLock)
		require.NoError(t, h.Unlock(t.Context()))
		next := mustLock(t, m)
		require.Greater(t, next.Token(), h.Token())
		require.NoError(t, next.Unlock(t.Context()))
	})
}

// twoInside shows that a second owner gets the lock while the first one still trusts its hold, and what is promised then.
func twoInside(t *testing.T, h *holdfast.Hold, rival *rlock.Mutex) {
	next := mustLock(t, rival)
	require.NoError(t, h.Context().Err(), "the weakness: both are inside")
	require.Greater(t, next.Token(), h.Token(), "the resource can tell them apart")
	require.ErrorIs(t, kindtest.Ended(t, h), holdfast.ErrLost)
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
	s := kindtest.State(t, rival)
	require.Equal(t, next.Owner(), s.Owner, "the second one's lock is not touched")
	require.NoError(t, next.Unlock(t.Context()))
}
