package integration_test

import (
	"context"
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
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
)

// mutex is what the kinds of lock with one holder have in common.
type mutex = kindtest.Mutex

// kind is a kind of lock as the tests over these kinds take it.
type kind struct {
	name   string
	make   func(c *holdfast.Client, name string) mutex
	nobody int // State.Waiters while nobody waits
}

var kinds = []kind{
	{"rlock", func(c *holdfast.Client, name string) mutex { return rlock.New(c, name) }, -1},
	{"fairlock", func(c *holdfast.Client, name string) mutex { return fairlock.New(c, name) }, 0},
	{"rwlock", func(c *holdfast.Client, name string) mutex { return workload.Writer{RWMutex: rwlock.New(c, name)} }, 0},
}

// eachKind runs a test for each kind of lock on each topology: each on another version where there are as many. They run
// one after the other on one topology, since a lock of one kind holds up that of the other with the same name.
func eachKind(t *testing.T, topologies topology.Kind, test func(t *testing.T, top topology.Topology, k kind)) {
	programs := outermost(t)
	topology.EachOutermost(t, topologies, func(t *testing.T, top topology.Topology) {
		for i, k := range kinds {
			if len(programs) == len(kinds) && !strings.Contains(t.Name(), "/"+programs[i].Name+"/") {
				continue
			}
			t.Run(k.name, func(t *testing.T) { test(t, top, k) })
		}
	})
}

// TestStory: a lock's life on every topology and version, of every kind, in several slots where there are slots.
func TestStory(t *testing.T) {
	// To such a client, one of several masters is a single server.
	const all = topology.Single | topology.Replicated | topology.Sentinel | topology.Cluster
	topology.Each(t, all, func(t *testing.T, top topology.Topology) {
		names := []string{"orders:42"}
		if top.Kind() == topology.Cluster {
			names = append(names, "{orders}:43", "x")
		}
		for _, k := range kinds {
			for _, name := range names {
				storyOf(t, k, func() redis.UniversalClient { return top.Connect(t) }, name)
			}
		}
		for _, name := range names {
			nothingLeft(t, top, name)
		}
		p := newPair(t, top.Connect(t), top.Connect(t), top.Nodes, nil)
		for _, tag := range []string{"story", "{story}"} {
			p.lives(p.family(tag))
		}
	})
}

// TestThroughFailover: another server takes over under holders and waiters of every kind, once in good order and
// once because the old one was killed. It has the locks, so the holds go on, and the waiters are woken by their ends.
func TestThroughFailover(t *testing.T) {
	const tag = "{failover}"
	topology.Each(t, topology.Replicated|topology.Sentinel|topology.Cluster, func(t *testing.T, top topology.Topology) {
		// An election may take longer than the default on a busy machine.
		p := newPair(t, top.Connect(t), top.Connect(t), top.Nodes, &holdfast.Options{RetryBudget: patience})
		members := p.family(tag)
		top.(topology.Failover).Failover(t, tag)
		p.finish(members)
		members = p.family(tag)
		top.(topology.Replicator).AwaitReplicas(t, tag)
		top.(topology.Killer).KillServing(t, tag)
		p.finish(members)
	})
}

// TestThroughReshard: the slot of all kinds' locks moves under holders and waiters. Calls meanwhile succeed, at once or later.
func TestThroughReshard(t *testing.T) {
	const tag = "{reshard}"
	topology.Each(t, topology.Cluster, func(t *testing.T, top topology.Topology) {
		p := newPair(t, top.Connect(t), top.Connect(t), top.Nodes, &holdfast.Options{RetryBudget: patience})
		members := p.family(tag)
		move := top.(topology.Resharder).BeginReshard(t, tag)
		moved, finished := make(chan error, len(members)), make(chan error, len(members))
		for _, m := range members {
			move.Key(t, m.name) // that is there, and all else of it is here: scripts that need both must wait
			if m.enter != nil {
				require.NoError(t, m.enter(), m.name)
			}
			done := moved
			if m.fresh {
				done = finished
			}
			go func() { done <- m.meddle() }()
		}
		move.Keys(t)
		for _, m := range members {
			if !m.fresh {
				require.NoError(t, <-moved)
			}
		}
		move.Finish(t)
		for _, m := range members {
			if m.fresh {
				require.NoError(t, <-finished)
			}
		}
		p.finish(members)
		p.lives(p.family(tag))
	})
}

// TestReaderWhileItsSlotMoves: a reader's lock has moved, its lease has not. It reads, so nobody may write, or hear it is free.
func TestReaderWhileItsSlotMoves(t *testing.T) {
	topology.Each(t, topology.Cluster, func(t *testing.T, top topology.Topology) {
		const name = "{reader}:moves"
		mutex := func(budget time.Duration) *rwlock.RWMutex {
			return rwlock.New(newClient(t, top.Connect(t), &holdfast.Options{RetryBudget: budget}), name)
		}
		mine, other := mutex(patience), mutex(200*time.Millisecond)
		h := kindtest.Take(t.Context(), t, mine.RLock)
		waiter := kindtest.Begin(t.Context(), t, mutex(patience).Lock) // whose place is among the keys that have to be there
		kindtest.Eventually(t, "it waits to write", func() bool {
			s, err := mine.State(t.Context())
			return err == nil && s.Waiters == 1
		})
		k := keys.ForReadWrite(name)
		move := top.(topology.Resharder).BeginReshard(t, name)
		for _, key := range []string{k.Name, k.Token, k.Writers} {
			move.Key(t, key)
		}
		lease := name + ":" + h.Owner() + ":rwlock_timeout:1"
		require.EqualValues(t, 1, move.From.Command(t, "EXISTS", lease), "the control: it is still there")
		require.Error(t, kindtest.Err(other.TryLock(t.Context())))
		s, err := other.State(t.Context())
		require.True(t, err != nil || len(s.Holders) == 1, "%v", s)
		move.Keys(t)
		move.Finish(t)
		require.NoError(t, h.Extend(t.Context(), time.Minute))
		require.NoError(t, h.Unlock(t.Context()))
		kindtest.Unlock(t, waiter.Hold())
	})
}

// story is that of the plain lock.
func story(t *testing.T, connect func() redis.UniversalClient, name string) {
	storyOf(t, kinds[0], connect, name)
}

// storyOf is a lock's life between two clients: exclusion, re-entry, state, a hundred wake-ups, staying taken, forced unlock.
func storyOf(t *testing.T, k kind, connect func() redis.UniversalClient, name string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	rdb := connect()
	a := k.make(newClient(t, rdb, nil), name)
	b := k.make(newClient(t, connect(), nil), name)
	stands := func(h *holdfast.Hold, count int) {
		s := kindtest.State(t, b)
		require.Equal(t, holdfast.State{Owner: h.Owner(), Count: count, Remaining: s.Remaining, Token: h.Token(),
			Waiters: k.nobody}, s)
	}
	h := kindtest.Take(ctx, t, a.Lock)
	kindtest.Refused(ctx, t, b.TryLock)
	inner := kindtest.Take(h.Context(), t, a.Lock)
	stands(h, 2)
	require.NoError(t, h.Extend(ctx, time.Minute))
	require.NoError(t, inner.Unlock(ctx))
	require.NoError(t, h.Unlock(ctx))

	var group sync.WaitGroup
	var last atomic.Uint64
	for _, m := range []mutex{a, b} {
		group.Go(func() {
			for range 50 {
				h, err := m.Lock(ctx) // would a wake-up be lost, the lease of 30 s is longer than our patience
				if !assert.NoError(t, err) {
					return
				}
				assert.Less(t, last.Swap(h.Token()), h.Token())
				assert.NoError(t, h.Unlock(ctx))
			}
		})
	}
	group.Wait()

	h = kindtest.Take(ctx, t, a.Lock, holdfast.HoldAtLeast(time.Hour))
	require.NoError(t, h.Unlock(ctx))
	stands(h, 1)
	kindtest.Forced(t, b)
	h = kindtest.Take(ctx, t, a.Lock)
	kindtest.Forced(t, b)
	require.ErrorIs(t, h.Unlock(ctx), holdfast.ErrLost)
	require.Zero(t, rdb.Exists(ctx, name).Val())
	require.Positive(t, rdb.PTTL(ctx, "redisson_lock_token:"+tagged(name)).Val(), "the token's key has a time to live")
}

// tagged is a name as it stands in derived keys.
func tagged(name string) string {
	if name[0] == '{' {
		return name
	}
	return "{" + name + "}"
}
