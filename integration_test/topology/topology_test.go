package topology

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// mutex is a lock of a client of its own, which is closed at the end of the test.
func mutex(t *testing.T, rdb redis.UniversalClient, name string) *rlock.Mutex {
	t.Helper()
	c, err := holdfast.New(rdb, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return rlock.New(c, name)
}

// within is a context for one step.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// excludes shows that one of two clients has the lock at a time, and that the second is woken when the first releases.
func excludes(t *testing.T, a, b *rlock.Mutex) {
	t.Helper()
	ctx := within(t)
	h, err := a.Lock(ctx)
	require.NoError(t, err)
	_, err = b.TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	granted := make(chan error, 1)
	go func() {
		h, err := b.Lock(ctx) // longer than our patience if it is not woken: the lease is 30 s
		if err == nil {
			err = h.Unlock(ctx)
		}
		granted <- err
	}()
	require.NoError(t, h.Unlock(ctx))
	require.NoError(t, <-granted)
}

// refused lists what the servers refused to the user.
func refused(t *testing.T, top Topology) (entries []any) {
	t.Helper()
	for _, n := range top.Nodes() {
		if log, err := n.Try("ACL", "LOG"); err == nil { // some nodes may be dead
			entries = append(entries, log.([]any)...)
		}
	}
	return entries
}

func TestALockWorksOnEveryTopology(t *testing.T) {
	Each(t, All, func(t *testing.T, top Topology) {
		require.Equal(t, t.Name(), "TestALockWorksOnEveryTopology/"+top.Name())
		for _, name := range []string{"orders:42", "{orders}:43", "x", "y"} {
			excludes(t, mutex(t, top.Connect(t), name), mutex(t, top.Connect(t), name))
		}
		require.Empty(t, refused(t, top), "the rule allows what the library sends")
		require.ErrorContains(t, top.Connect(t).Keys(t.Context(), "*").Err(), "NOPERM")
		require.NotEmpty(t, refused(t, top), "the control: a refusal is seen")
		require.NoError(t, top.Admin(t).Set(t.Context(), "k", "v", time.Minute).Err())
		require.Equal(t, "v", top.Serving(t, "k").Command(t, "GET", "k"))
		require.Equal(t, "v"+top.Version(), "v"+serverSays(t, top))
	})
}

// serverSays is the version by INFO.
func serverSays(t *testing.T, top Topology) string {
	t.Helper()
	field := "redis_version"
	if top.Valkey() {
		field = "valkey_version"
	}
	return redistest.InfoField(top.Serving(t, "k").Command(t, "INFO", "server").(string), field)
}

func TestMastersHaveAClientEach(t *testing.T) {
	Each(t, Masters, func(t *testing.T, top Topology) {
		clients := top.(Quorum).ConnectEach(t)
		require.Len(t, clients, 5)
		h, err := mutex(t, clients[0], "name").Lock(within(t))
		require.NoError(t, err)
		other, err := mutex(t, clients[1], "name").TryLock(within(t))
		require.NoError(t, err, "they know nothing of each other")
		require.NoError(t, other.Unlock(within(t)))
		require.NoError(t, h.Unlock(within(t)))
	})
}

// A hold outlives a failover and a slot that moves, and the lock works for others afterwards.
func TestAHoldOutlivesAFailover(t *testing.T) {
	Each(t, Replicated|Sentinel|Cluster, func(t *testing.T, top Topology) {
		survives(t, top, func() {
			old := top.Serving(t, "name")
			promoted := top.(Failover).Failover(t, "name")
			require.NotEqual(t, old.Addr(), promoted.Addr())
			require.Equal(t, promoted.Addr(), top.Serving(t, "name").Addr())
		})
		require.Empty(t, refused(t, top))
	})
}

func TestAHoldOutlivesAKilledServer(t *testing.T) {
	Each(t, Replicated|Sentinel|Cluster, func(t *testing.T, top Topology) {
		survives(t, top, func() {
			top.(Replicator).AwaitReplicas(t, "name") // what is not replicated yet would be lost
			top.(Killer).KillServing(t, "name")
		})
		require.Empty(t, refused(t, top))
	})
}

func TestAHoldOutlivesResharding(t *testing.T) {
	Each(t, Cluster, func(t *testing.T, top Topology) {
		survives(t, top, func() {
			old := top.Serving(t, "name")
			top.(Resharder).Reshard(t, "name")
			require.NotEqual(t, old.Addr(), top.Serving(t, "name").Addr())
		})
		survives(t, top, func() {
			move := top.(Resharder).BeginReshard(t, "name")
			move.Keys(t)
			_, err := mutex(t, top.Connect(t), "name").TryLock(within(t))
			require.ErrorIs(t, err, holdfast.ErrNotAcquired, "in the middle, by ASK")
			move.Finish(t)
		})
		require.Empty(t, refused(t, top))
	})
}

func survives(t *testing.T, top Topology, change func()) {
	t.Helper()
	a, b := mutex(t, top.Connect(t), "name"), mutex(t, top.Connect(t), "name")
	h, err := a.Lock(within(t))
	require.NoError(t, err)
	change()
	_, err = b.TryLock(within(t))
	require.ErrorIs(t, err, holdfast.ErrNotAcquired, "the server knows the hold")
	require.NoError(t, h.Unlock(within(t)))
	excludes(t, a, b)
}

// The lost write is the grant: the promised weakness of a lock on replicated servers, which the token makes visible.
func TestLostWritesAreLost(t *testing.T) {
	Each(t, Replicated|Sentinel|Cluster, func(t *testing.T, top Topology) {
		a, b := mutex(t, top.Connect(t), "name"), mutex(t, top.Connect(t), "name")
		require.NoError(t, top.Admin(t).Set(within(t), "{name}kept", "v", time.Minute).Err())
		var h *holdfast.Hold
		promoted := top.(Loser).LoseWrites(t, "name", func() {
			var err error
			h, err = a.Lock(within(t))
			require.NoError(t, err)
		})
		second, err := b.Lock(within(t))
		require.NoError(t, err, "the new server has never heard of the first")
		require.Greater(t, second.Token(), h.Token())
		require.Equal(t, "v", promoted.Command(t, "GET", "{name}kept"), "what was replicated is there")
		require.ErrorIs(t, h.Unlock(within(t)), holdfast.ErrLost)
		require.NoError(t, second.Unlock(within(t)))
	})
}

func TestNodesPauseAndDie(t *testing.T) {
	Each(t, Single, func(t *testing.T, top Topology) {
		node := top.Nodes()[0]
		rdb := top.Connect(t, func(o *redis.UniversalOptions) { o.MaxRetries, o.ReadTimeout = -1, 200*time.Millisecond })
		require.NoError(t, rdb.Ping(t.Context()).Err())
		node.Pause()
		require.ErrorContains(t, rdb.Ping(t.Context()).Err(), "i/o timeout")
		node.Resume()
		require.Eventually(t, func() bool { return rdb.Ping(t.Context()).Err() == nil }, patience, 5*time.Millisecond)
		node.Kill()
		require.Error(t, rdb.Ping(t.Context()).Err())
		if again, ok := node.(Restarter); ok {
			again.Restart()
			require.NoError(t, top.Connect(t).Ping(t.Context()).Err(), "the user is there again")
		}
	})
}
