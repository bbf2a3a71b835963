package integration_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
)

// mutex is what the kinds of lock have in common.
type mutex interface {
	holdfast.Locker
	State(ctx context.Context) (holdfast.State, error)
	ForceUnlock(ctx context.Context) (bool, error)
}

// kind is a kind of lock as the tests over all kinds take it.
type kind struct {
	name   string
	make   func(c *holdfast.Client, name string) mutex
	nobody int // State.Waiters while nobody waits
}

var kinds = []kind{
	{"rlock", func(c *holdfast.Client, name string) mutex { return rlock.New(c, name) }, -1},
	{"fairlock", func(c *holdfast.Client, name string) mutex { return fairlock.New(c, name) }, 0},
	{"rwlock", func(c *holdfast.Client, name string) mutex { return writer{rwlock.New(c, name)} }, 0},
}

// writer is the side of a read-write lock that excludes everybody.
type writer struct{ *rwlock.RWMutex }

func (w writer) State(ctx context.Context) (holdfast.State, error) {
	s, err := w.RWMutex.State(ctx)
	state := holdfast.State{Token: s.Token, Waiters: s.Waiters}
	for _, h := range s.Holders {
		state.Owner, state.Count, state.Remaining = h.Owner, h.Count, h.Remaining
	}
	return state, err
}

// eachKind runs a test for each kind of lock on each topology. They run one after the other on one
// topology, since a lock of one kind holds up that of the other with the same name.
func eachKind(t *testing.T, topologies topology.Kind, test func(t *testing.T, top topology.Topology, k kind)) {
	topology.Each(t, topologies, func(t *testing.T, top topology.Topology) {
		for _, k := range kinds {
			t.Run(k.name, func(t *testing.T) { test(t, top, k) })
		}
	})
}

// TestStory: a lock's life on every topology and version, in several slots where there are slots.
func TestStory(t *testing.T) {
	eachKind(t, topology.All, func(t *testing.T, top topology.Topology, k kind) {
		names := []string{"orders:42"}
		if top.Kind() == topology.Cluster {
			names = append(names, "{orders}:43", "x", "y", "z")
		}
		for _, name := range names {
			storyOf(t, k, func() redis.UniversalClient { return top.Connect(t) }, name)
		}
		for _, name := range names {
			nothingLeft(t, top, name)
		}
	})
}

// TestHeldThroughFailover: another server takes over under a holder and a waiter, once in good
// order and once because the old one was killed. It has the lock, so the hold goes on, and the
// waiter is woken by its release.
func TestHeldThroughFailover(t *testing.T) {
	for _, k := range kinds { // each on a topology of its own, since a server is killed
		t.Run(k.name, func(t *testing.T) {
			topology.Each(t, topology.Replicated|topology.Sentinel|topology.Cluster,
				func(t *testing.T, top topology.Topology) {
					heldThroughFailover(t, top, k)
				})
		})
	}
}

func heldThroughFailover(t *testing.T, top topology.Topology, k kind) {
	const name = "failover"
	opts := &holdfast.Options{RetryBudget: patience} // an election may take longer than the default on a busy machine
	held := func(happen func()) {
		h, err := k.make(newClient(t, top.Connect(t), opts), name).Lock(t.Context(), holdfast.Wait(patience))
		require.NoError(t, err)
		granted := standIn(t, k, k.make(newClient(t, top.Connect(t), opts), name))
		happen()
		require.NoError(t, h.Unlock(t.Context()), "the new server knows the hold")
		<-granted
	}
	held(func() { top.(topology.Failover).Failover(t, name) })
	held(func() {
		top.(topology.Replicator).AwaitReplicas(t, name)
		top.(topology.Killer).KillServing(t, name)
	})
}

// TestHeldThroughReshard: the slot of a lock moves to another master under a holder and a waiter;
// what they do while it is half moved succeeds, as after it.
func TestHeldThroughReshard(t *testing.T) {
	eachKind(t, topology.Cluster, func(t *testing.T, top topology.Topology, k kind) {
		const name = "reshard"
		m := k.make(newClient(t, top.Connect(t), nil), name)
		h, err := m.Lock(t.Context(), holdfast.Wait(patience))
		require.NoError(t, err)
		granted := standIn(t, k, k.make(newClient(t, top.Connect(t), nil), name))
		move := top.(topology.Resharder).BeginReshard(t, name)
		move.Key(t, name) // the lock is there, its token is here: scripts that need both must wait
		inner, err := m.Lock(h.Context(), holdfast.Wait(patience))
		require.NoError(t, err)
		extended := make(chan error, 1)
		go func() { extended <- h.Extend(t.Context(), time.Minute) }()
		move.Keys(t)
		require.NoError(t, <-extended)
		move.Finish(t)
		require.NoError(t, inner.Unlock(t.Context()))
		require.NoError(t, h.Unlock(t.Context()), "the new master knows the hold")
		<-granted
		storyOf(t, k, func() redis.UniversalClient { return top.Connect(t) }, name)
	})
}

// story is that of the plain lock.
func story(t *testing.T, connect func() redis.UniversalClient, name string) {
	t.Helper()
	storyOf(t, kinds[0], connect, name)
}

// storyOf is a lock's whole life between two clients: exclusion, re-entry, state, wake-up over two
// hundred rounds, a lock that stays taken, forced unlock, and nothing left behind.
func storyOf(t *testing.T, k kind, connect func() redis.UniversalClient, name string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	rdb := connect()
	a := k.make(newClient(t, rdb, nil), name)
	b := k.make(newClient(t, connect(), nil), name)

	h, err := a.Lock(ctx)
	require.NoError(t, err)
	_, err = b.TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	inner, err := a.Lock(h.Context())
	require.NoError(t, err)
	s, err := b.State(ctx)
	require.NoError(t, err)
	require.Equal(t, holdfast.State{Owner: h.Owner(), Count: 2, Remaining: s.Remaining, Token: h.Token(),
		Waiters: k.nobody}, s)
	require.NoError(t, h.Extend(ctx, time.Minute))
	require.NoError(t, inner.Unlock(ctx))
	require.NoError(t, h.Unlock(ctx))

	var group sync.WaitGroup
	var last atomic.Uint64
	for _, m := range []mutex{a, b} {
		group.Go(func() {
			for range 100 {
				h, err := m.Lock(ctx) // would a wake-up be lost, the lease of 30 s is longer than our patience
				if err != nil {
					t.Error(err)
					return
				}
				if prior := last.Swap(h.Token()); prior >= h.Token() {
					t.Errorf("token %d after %d", h.Token(), prior)
				}
				if err := h.Unlock(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()

	h, err = a.Lock(ctx, holdfast.HoldAtLeast(time.Hour))
	require.NoError(t, err)
	require.NoError(t, h.Unlock(ctx))
	s, err = b.State(ctx)
	require.NoError(t, err)
	require.Equal(t, holdfast.State{Owner: h.Owner(), Count: 1, Remaining: s.Remaining, Token: h.Token(),
		Waiters: k.nobody}, s)
	there, err := b.ForceUnlock(ctx)
	require.NoError(t, err)
	require.True(t, there)

	h, err = a.Lock(ctx)
	require.NoError(t, err)
	there, err = b.ForceUnlock(ctx)
	require.NoError(t, err)
	require.True(t, there)
	require.ErrorIs(t, h.Unlock(ctx), holdfast.ErrLost)
	require.Zero(t, rdb.Exists(ctx, name).Val())
	require.Positive(t, rdb.PTTL(ctx, "redisson_lock_token:"+tagged(name)).Val(), "the token's key has a time to live")
}

// standIn locks and unlocks in the background; the channel is closed when that is done. It returns
// when the waiter has asked, and where there is a queue at the server, when it has its place there.
func standIn(t *testing.T, k kind, m mutex) <-chan struct{} {
	t.Helper()
	_, err := m.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	done := make(chan struct{})
	go func() {
		defer close(done)
		h, err := m.Lock(t.Context(), holdfast.Wait(2*patience))
		if err == nil {
			err = h.Unlock(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
	}()
	require.Eventually(t, func() bool {
		s, err := m.State(t.Context())
		return err == nil && (k.nobody < 0 || s.Waiters == 1)
	}, patience, 5*time.Millisecond)
	return done
}

// tagged is a name as it stands in derived keys.
func tagged(name string) string {
	if name[0] == '{' {
		return name
	}
	return "{" + name + "}"
}
