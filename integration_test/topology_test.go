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
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

const patience = 30 * time.Second

// newClient makes a client of the library, closed at the end of the test.
func newClient(t *testing.T, rdb redis.UniversalClient, opts *holdfast.Options) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(rdb, opts)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// story is a lock's whole life between two clients: exclusion, re-entry, state, wake-up over two hundred rounds, forced
// unlock, and nothing left behind.
func story(t *testing.T, connect func() redis.UniversalClient, name string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	rdb := connect()
	a := rlock.New(newClient(t, rdb, nil), name)
	b := rlock.New(newClient(t, connect(), nil), name)

	h, err := a.Lock(ctx)
	require.NoError(t, err)
	_, err = b.TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	inner, err := a.Lock(h.Context())
	require.NoError(t, err)
	s, err := b.State(ctx)
	require.NoError(t, err)
	require.Equal(t, holdfast.State{Owner: h.Owner(), Count: 2, Remaining: s.Remaining, Token: h.Token(), Waiters: -1}, s)
	require.NoError(t, h.Extend(ctx, time.Minute))
	require.NoError(t, inner.Unlock(ctx))
	require.NoError(t, h.Unlock(ctx))

	var group sync.WaitGroup
	var last atomic.Uint64
	for _, m := range []*rlock.Mutex{a, b} {
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

	h, err = a.Lock(ctx)
	require.NoError(t, err)
	there, err := b.ForceUnlock(ctx)
	require.NoError(t, err)
	require.True(t, there)
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

func TestSingleServer(t *testing.T) {
	srv := redistest.Start(t)
	t.Logf("server %s, valkey %v", srv.Version(), srv.IsValkey())
	story(t, func() redis.UniversalClient { return srv.Client(t) }, "orders:42")
}

// TestCluster: names in several slots, a master that fails over under a holder and a waiter.
func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 1)
	connect := func() redis.UniversalClient { return cluster.Client(t) }
	for _, name := range []string{"orders:42", "{orders}:43", "x", "y", "z"} {
		story(t, connect, name)
	}

	const name = "failover"
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	h, err := rlock.New(newClient(t, connect(), nil), name).Lock(ctx)
	require.NoError(t, err)
	granted := waitFor(ctx, t, rlock.New(newClient(t, connect(), nil), name))
	cluster.AwaitReplicas(ctx, t, name)
	cluster.Failover(t, name)
	require.NoError(t, h.Unlock(ctx), "the new master knows the hold")
	<-granted
}

// TestSentinel: the primary is replaced under a holder and a waiter.
func TestSentinel(t *testing.T) {
	s := redistest.StartSentinel(t)
	connect := func() redis.UniversalClient { return s.Client(t) }
	story(t, connect, "orders:42")

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	h, err := rlock.New(newClient(t, connect(), nil), "failover").Lock(ctx)
	require.NoError(t, err)
	granted := waitFor(ctx, t, rlock.New(newClient(t, connect(), nil), "failover"))
	s.AwaitReplica(ctx, t)
	s.Failover(t)
	require.NoError(t, h.Unlock(ctx), "the new primary knows the hold")
	<-granted
}

// waitFor locks and unlocks in the background; the channel is closed when that is done. It returns when the waiter stands
// in line.
func waitFor(ctx context.Context, t *testing.T, m *rlock.Mutex) <-chan struct{} {
	t.Helper()
	_, err := m.TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	done := make(chan struct{})
	go func() {
		defer close(done)
		h, err := m.Lock(ctx)
		if err == nil {
			err = h.Unlock(ctx)
		}
		if err != nil {
			t.Error(err)
		}
	}()
	return done
}

// TestSharedWithRedisson plays the Java side by what it sends (recorded from Redisson 4.7): its lock keeps ours out, its
// unlock wakes us, ours keeps it out and wakes it.
func TestSharedWithRedisson(t *testing.T) {
	srv := redistest.Start(t)
	java := srv.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m := rlock.New(newClient(t, srv.Client(t), nil), "foo")
	const owner = "8743c9c0-0795-4907-87fd-6c719a6b4586:1"
	lock := func() any {
		return java.Eval(ctx, `if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
			redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil end
			return redis.call('pttl', KEYS[1])`, []string{"foo"}, 30000, owner).Val()
	}
	require.Nil(t, lock())
	granted := waitFor(ctx, t, m)
	const channel = "redisson_lock__channel:{foo}"
	require.Eventually(t, func() bool { return java.PubSubNumSub(ctx, channel).Val()[channel] == 1 }, patience, time.Millisecond)
	require.NoError(t, java.Del(ctx, "foo").Err())
	require.NoError(t, java.Publish(ctx, channel, "0").Err())
	<-granted

	h, err := m.Lock(ctx)
	require.NoError(t, err)
	require.Positive(t, lock(), "refused, with the milliseconds that are left")
	sub := java.Subscribe(ctx, channel)
	defer sub.Close()
	_, err = sub.Receive(ctx)
	require.NoError(t, err)
	require.NoError(t, h.Unlock(ctx))
	msg, err := sub.ReceiveMessage(ctx)
	require.NoError(t, err)
	require.Equal(t, "0", msg.Payload)
	require.Nil(t, lock())
}
