package integration_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// What a user of Replicas and of ReplicasOnDisk needs beyond the rule, and to be told how many replicas there are.
const (
	aclReplicas = "+wait"
	aclOnDisk   = "+waitaof"
	aclHint     = "+info"
)

// What replicas are given that will confirm, and that will not.
const (
	amply   = patience / 2
	briefly = 300 * time.Millisecond
)

// locks makes the same lock of each kind.
func locks(c *holdfast.Client, name string) map[string]holdfast.Locker {
	return map[string]holdfast.Locker{"rlock": rlock.New(c, name+":r"), "fairlock": fairlock.New(c, name+":f")}
}

// startWithReplica starts a primary with a replica that counts.
func startWithReplica(t *testing.T, p redistest.Program, opts ...redistest.Option) (r *redistest.Replicated,
	replica *redistest.Server) {
	r = redistest.StartReplicated(t, 1, append(opts, redistest.Exec(p.Path))...)
	r.Primary().Command(t, "WAIT", "1", "0")
	return r, r.Replicas()[0]
}

// knowsWAITAOF: Redis since 7.2, and Valkey.
func knowsWAITAOF(t *testing.T, srv *redistest.Server) bool {
	info := srv.Command(t, "COMMAND", "INFO", "waitaof").([]any)
	return info[0] != nil
}

// TestReplicasConfirm: on every version a told grant is at the replica, and there is none if the replica stands still.
func TestReplicasConfirm(t *testing.T) {
	level.ForAll(t)
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		t.Parallel()
		r, replica := startWithReplica(t, p)
		c, rival := newClient(t, r.Client(t), nil), newClient(t, r.Client(t), nil)
		for kind, m := range locks(c, "orders") {
			h, err := m.Lock(t.Context(), holdfast.Replicas(1, amply))
			require.NoError(t, err, kind)
			require.Equal(t, "1", replica.Command(t, "HGET", m.Name(), h.Owner()))
			require.NoError(t, h.Unlock(t.Context()))
		}
		// Over many connections, which have all written before: that is not what is to be waited for.
		crowd := func(timeout time.Duration) (refused int32) {
			var group sync.WaitGroup
			var n atomic.Int32
			for i := range 16 {
				group.Go(func() {
					err := kindtest.Pair(t.Context(), rlock.New(c, fmt.Sprint("orders:", i)), holdfast.Replicas(1, timeout))
					if errors.Is(err, holdfast.ErrNotReplicated) {
						n.Add(1)
					} else if err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			return n.Load()
		}
		require.Zero(t, crowd(amply))
		replica.Pause()
		require.EqualValues(t, 16, crowd(briefly))
		rivals := locks(rival, "orders")
		for kind, m := range locks(c, "orders") {
			for range 2 { // the second time over a connection that has written much that the replica has
				_, err := m.Lock(t.Context(), holdfast.Replicas(1, briefly))
				require.ErrorIs(t, err, holdfast.ErrNotReplicated, kind)
				require.ErrorContains(t, err, "0 of 1 replicas confirmed within 300ms")
				kindtest.Unlock(t, kindtest.Take(t.Context(), t, rivals[kind].TryLock)) // given back before the error was told
			}
		}
	})
}

// TestReplicasConfirmOnDisk: only replicas with an append-only file count; a server that does not know WAITAOF says so.
func TestReplicasConfirmOnDisk(t *testing.T) {
	level.ForAll(t)
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		t.Parallel()
		r, replica := startWithReplica(t, p)
		m := rlock.New(newClient(t, r.Client(t), nil), "orders")
		onDisk := func(timeout time.Duration) error {
			err := kindtest.Pair(t.Context(), m, holdfast.ReplicasOnDisk(1, timeout))
			left, err2 := r.Primary().Try("EXISTS", "orders")
			require.NoError(t, err2)
			require.EqualValues(t, 0, left)
			return err
		}
		if !knowsWAITAOF(t, r.Primary()) {
			kindtest.Tells(t, onDisk(briefly), "use Replicas", kindtest.Not(holdfast.ErrNotReplicated))
			return
		}
		kindtest.Tells(t, onDisk(briefly), holdfast.ErrNotReplicated, "without appendonly")
		replica.Command(t, "CONFIG", "SET", "appendonly", "yes")
		require.NoError(t, onDisk(amply))
	})
}

// replicasOf is how many there are of each server: if all have a grant, whichever is promoted has it.
func replicasOf(top topology.Topology) int {
	if top.Kind() == topology.Replicated {
		return 2
	}
	return 1
}

// TestReplicasInEveryTopology: also where the client has to find the server first, and after a failover to another one.
func TestReplicasInEveryTopology(t *testing.T) {
	topology.Each(t, topology.Replicated|topology.Sentinel|topology.Cluster, func(t *testing.T, top topology.Topology) {
		for kind, m := range locks(newClient(t, top.Connect(t), nil), "orders") {
			lock := func() {
				err := kindtest.Pair(t.Context(), m, holdfast.Replicas(replicasOf(top), amply), holdfast.Wait(patience))
				require.NoError(t, err, kind)
			}
			lock()
			top.(topology.Failover).Failover(t, m.Name())
			lock()
			if cluster, ok := top.(topology.Resharder); ok {
				cluster.Reshard(t, m.Name())
				lock()
			}
			_, err := m.Lock(t.Context(), holdfast.Replicas(9, briefly), holdfast.Wait(patience))
			require.ErrorIs(t, err, holdfast.ErrNotReplicated)
			kindtest.Unlock(t, kindtest.Take(t.Context(), t, m.TryLock)) // given back
		}
	})
}

// TestFailoverAndReplicas: the primary dies right after the grant. The lock is at the new one, which refuses it to others.
func TestFailoverAndReplicas(t *testing.T) {
	topology.Each(t, topology.Replicated|topology.Sentinel|topology.Cluster, func(t *testing.T, top topology.Topology) {
		m := rlock.New(newClient(t, top.Connect(t), &holdfast.Options{Lease: 2 * electionLease}), "orders")
		h := kindtest.Lock(t, m, holdfast.Replicas(replicasOf(top), amply))
		top.(topology.Killer).KillServing(t, "orders")
		rival := rlock.New(newClient(t, top.Connect(t), nil), "orders")
		s := kindtest.State(t, rival)
		require.Equal(t, h.Owner(), s.Owner)
		require.Equal(t, h.Token(), s.Token)
		kindtest.Refused(t.Context(), t, rival.TryLock)
		require.NoError(t, h.Unlock(t.Context()), "held until now")
	})
}

// TestDemotedWhileReplicasAreWaitedFor: the server is made a replica while it waits for its own. The new one is asked then.
func TestDemotedWhileReplicasAreWaitedFor(t *testing.T) {
	level.ForAll(t)
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		t.Parallel()
		r := redistest.StartReplicated(t, 2, redistest.Exec(p.Path))
		old, next, slow := r.Nodes[0], r.Nodes[1], r.Nodes[2]
		old.Command(t, "WAIT", "2", "0")
		m := rlock.New(newClient(t, r.Client(t), nil), "orders")
		require.NoError(t, mustLock(t, m).Unlock(t.Context()))
		slow.Pause()
		granted := kindtest.Begin(t.Context(), t, m.Lock, holdfast.Replicas(2, amply))
		kindtest.Eventually(t, "waited for", func() bool { return old.Field(t, "clients", "blocked_clients") == "1" })
		kindtest.Eventually(t, "one has it", func() bool { return next.Command(t, "EXISTS", "orders") == int64(1) })
		r.Promote(t, next)
		slow.Resume()
		h := granted.Hold()
		require.Equal(t, "1", next.Command(t, "HGET", "orders", h.Owner()))
		require.NoError(t, h.Unlock(t.Context()))
	})
}

// TestFailoverWithoutReplicas: replication is held back and then the primary dies. With Replicas there is no grant that
// could be lost. Controls: without it, and with it but no look at what WAIT counted, two are inside.
func TestFailoverWithoutReplicas(t *testing.T) {
	lose := func(t *testing.T, opts ...holdfast.Option) (h *holdfast.Hold, rival *rlock.Mutex, err error) {
		top := redistest.StartReplicated(t, 1)
		top.Primary().Command(t, "WAIT", "1", "0")
		replica := top.Replicas()[0]
		m := rlock.New(newClient(t, top.Client(t), &holdfast.Options{Lease: weakLease}), "weak")
		require.NoError(t, mustLock(t, m).Unlock(t.Context()))
		top.AwaitReplicas(t.Context(), t)
		top.Detach(t, replica)
		h, err = m.Lock(t.Context(), opts...)
		top.Primary().Kill()
		top.Promote(t, replica)
		return h, rlock.New(newClient(t, top.Client(t), nil), "weak"), err
	}
	_, rival, err := lose(t, holdfast.Replicas(1, briefly))
	require.ErrorIs(t, err, holdfast.ErrNotReplicated)
	require.NoError(t, mustLock(t, rival).Unlock(t.Context()))

	h, rival, err := lose(t)
	require.NoError(t, err)
	twoInside(t, h, rival)

	defer defence.Replicas.Without(t)()
	h, rival, err = lose(t, holdfast.Replicas(1, briefly))
	require.NoError(t, err)
	twoInside(t, h, rival)
}

// TestRolledBackQueue: a failover brings back a queue whose waiters were served; their client listens and knows none of them.
// The first live waiter is granted the lock one claim after the old lease, not a claim for each of them later.
func TestRolledBackQueue(t *testing.T) {
	const gone, lease, claim = 20, 2 * time.Second, 2 * time.Second
	top := redistest.StartReplicated(t, 1)
	client := func() *holdfast.Client { return newClient(t, top.Client(t), &holdfast.Options{Lease: lease}) }
	crowd, live := client(), client()
	h := kindtest.Lock(t, fairlock.New(client(), "rolled back"))
	var served sync.WaitGroup
	for range gone {
		served.Go(func() {
			h, err := fairlock.New(crowd, "rolled back").Lock(t.Context())
			if err == nil {
				err = h.Unlock(t.Context())
			}
			assert.NoError(t, err)
		})
	}
	queued := func() int64 { return top.Primary().Command(t, "LLEN", "redisson_lock_queue:{rolled back}").(int64) }
	kindtest.Eventually(t, "all wait", func() bool { return queued() == gone })
	top.AwaitReplicas(t.Context(), t)
	replica := top.Replicas()[0]
	top.Detach(t, replica)
	kindtest.Unlock(t, h)
	served.Wait()
	top.Primary().Kill()
	top.Promote(t, replica)
	require.EqualValues(t, gone, queued())
	start := time.Now()
	h, err := fairlock.New(live, "rolled back").Lock(t.Context(), holdfast.Wait(2*gone*claim))
	require.NoError(t, err)
	took := time.Since(start)
	t.Logf("granted after %v", took)
	require.Less(t, took, gone*claim/2) // lease and claim are 4 s, and this is 20
	kindtest.Unlock(t, h)
}

// TestReplicasWithTheRule: what it takes more than the rule, and what is said without.
func TestReplicasWithTheRule(t *testing.T) {
	level.ForAll(t)
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		t.Parallel()
		r, replica := startWithReplica(t, p)
		srv := r.Primary()
		rule := aclRule(srv, false)
		as := func(rule string) *rlock.Mutex {
			setUser(t, srv, "limited", rule)
			rdb := r.Client(t, func(o *redis.Options) { o.Username, o.Password = "limited", "secret" })
			return rlock.New(newClient(t, rdb, nil), "orders:42")
		}
		one := holdfast.Replicas(1, amply)
		limited := as(rule + " " + aclReplicas)
		kindtest.Unlock(t, kindtest.Lock(t, limited, one))
		require.Empty(t, refused(t, srv))

		limited = as(rule)
		_, err := limited.Lock(t.Context(), one)
		require.ErrorContains(t, err, "this user lacks a permission")
		require.EqualValues(t, 0, srv.Command(t, "EXISTS", "orders:42"), "given back")
		if knowsWAITAOF(t, srv) {
			_, err = limited.Lock(t.Context(), holdfast.ReplicasOnDisk(1, amply))
			require.ErrorContains(t, err, "this user lacks a permission")
			require.EqualValues(t, 0, srv.Command(t, "EXISTS", "orders:42"), "given back")
			replica.Command(t, "CONFIG", "SET", "appendonly", "yes")
			kindtest.Unlock(t, kindtest.Lock(t, as(rule+" "+aclOnDisk), holdfast.ReplicasOnDisk(1, amply)))
		}

		replica.Pause()
		two := holdfast.Replicas(2, briefly)
		_, err = as(rule+" "+aclReplicas).Lock(t.Context(), two)
		require.ErrorIs(t, err, holdfast.ErrNotReplicated)
		require.NotContains(t, err.Error(), "the server has")
		_, err = as(strings.Join([]string{rule, aclReplicas, aclHint}, " ")).Lock(t.Context(), two)
		require.ErrorContains(t, err, "0 of 2 replicas confirmed within 300ms; the server has 1")
	})
}
