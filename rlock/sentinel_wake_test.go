package rlock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestWokenAfterFailover: an old primary that lives on, and never hears that it is one no longer,
// keeps its subscribers. Whoever waits hears all the same of a release at the new one, in clients
// of every shape. The leases are long, so that nothing else wakes anybody.
func TestWokenAfterFailover(t *testing.T) {
	for _, p := range redistest.Programs(t) {
		t.Run(p.Name, func(t *testing.T) { wokenAfterFailover(t, redistest.StartSentinel(t, redistest.Exec(p.Path))) })
	}
}

func wokenAfterFailover(t *testing.T, s *redistest.Sentinel) {
	old := s.Primary(t)
	// Sentinel cannot make it a replica, nor end its connections: both are one transaction.
	old.Command(t, "ACL", "SETUSER", "default", "-replicaof", "-slaveof")
	holder := newClient(t, s.Client(t), &holdfast.Options{Lease: time.Hour})
	// Without retries it ends soon: it goes on to ask the Sentinels when it is closed.
	random := redis.NewFailoverClusterClient(&redis.FailoverOptions{
		MasterName: redistest.SentinelMaster, SentinelAddrs: s.Addrs(), MaxRetries: -1, DialerRetries: 1,
		RouteRandomly: true,
	})
	t.Cleanup(func() { _ = random.Close() })
	sleepers := func() []*sleeper {
		return []*sleeper{asleep(t, old, holder, s.Client(t)), asleep(t, old, holder, random)}
	}
	restore := defence.Follow.Without(t)
	undefended := sleepers()
	restore()
	defended := sleepers()

	s.AwaitReplica(t.Context(), t)
	promoted := s.Failover(t)
	admin := newClient(t, promoted.Client(t), nil)
	for _, w := range slices.Concat(undefended, defended) {
		released, err := rlock.New(admin, w.name).ForceUnlock(t.Context())
		require.NoError(t, err)
		require.True(t, released, "the new primary has the lock")
	}
	for _, w := range defended {
		eventually(t, "the waiter has the lock", func() bool { return len(w.granted) == 1 })
		require.NoError(t, (<-w.granted).Unlock(t.Context()))
	}
	require.Contains(t, old.Command(t, "ROLE"), "master", "the old primary was left alone")
	for _, w := range undefended {
		require.Empty(t, w.granted, "control")
		require.True(t, listens(t, old, w.channel()), "control: it listens at the old primary")
		require.True(t, free(t, promoted.Client(t), w.name), "control: the lock is free")
	}
}

// sleeper waits for a lock.
type sleeper struct {
	name    string
	granted chan *holdfast.Hold
}

func (s *sleeper) channel() string { return "redisson_lock__channel:{" + s.name + "}" }

func listens(t *testing.T, server *redistest.Server, channel string) bool {
	t.Helper()
	return server.Client(t).PubSubNumSub(t.Context(), channel).Val()[channel] == 1
}

// asleep makes a client on rdb that waits for a lock, and returns when nothing but a message wakes
// it. It leaves with the test.
func asleep(t *testing.T, primary *redistest.Server, holder *holdfast.Client, rdb redis.UniversalClient) *sleeper {
	t.Helper()
	s := &sleeper{name: uniqueName(t), granted: make(chan *holdfast.Hold, 1)}
	_ = lock(t, rlock.New(holder, s.name))
	attempts := func() int64 { return primary.CommandCalls(t)["evalsha"] }
	before := attempts()
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { leave(); <-done })
	waiter := newClient(t, rdb, nil)
	go func() {
		defer close(done)
		if h, err := rlock.New(waiter, s.name).Lock(ctx); err == nil {
			s.granted <- h
		}
	}()
	eventually(t, "it was told the time, refused, and refused again when it listened", func() bool {
		return attempts() >= before+3 && listens(t, primary, s.channel())
	})
	return s
}
