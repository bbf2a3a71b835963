package fairlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const patience = kindtest.Patience

var (
	lock, take, unlock = kindtest.Lock, kindtest.Take, kindtest.Unlock
	begin, refused     = kindtest.Begin, kindtest.Refused
	script             = kindtest.Script

	eventually = kindtest.Eventually
	newClient  = kindtest.NewClient
	uniqueName = kindtest.UniqueName
)

// queued lists the owners in the queue of a name, the next one first.
func queued(t testing.TB, rdb redis.UniversalClient, name string) []string {
	list, err := rdb.LRange(context.Background(), "redisson_lock_queue:{"+name+"}", 0, -1).Result()
	require.NoError(t, err)
	return list
}

// mailbox hears what a client is told of grants.
func mailbox(t *testing.T, rdb *redis.Client, name, client string) *redis.PubSub {
	return redistest.Subscribed(t, rdb, "redisson_lock__channel:{"+name+"}:"+client)
}

// foreign gives an owner of another client a place in the queue that counts for a time.
func foreign(t *testing.T, rdb *redis.Client, name, owner string, counts time.Duration) {
	end := float64(rdb.Time(t.Context()).Val().Add(counts).UnixMilli())
	require.NoError(t, rdb.RPush(t.Context(), "redisson_lock_queue:{"+name+"}", owner).Err())
	require.NoError(t, rdb.ZAdd(t.Context(), "redisson_lock_timeout:{"+name+"}", redis.Z{Score: end, Member: owner}).Err())
}

// drain has the holder of a lock and its waiters have their turns, in this order, and looks what is left.
func drain(t *testing.T, rdb *redis.Client, name string, last *holdfast.Hold, waiters ...*kindtest.Pending) {
	for _, w := range waiters {
		unlock(t, last)
		next := w.Hold()
		require.Greater(t, next.Token(), last.Token())
		last = next
	}
	unlock(t, last)
	empty(t, rdb, name)
}

// empty waits until nobody has a lock, nor a place.
func empty(t *testing.T, rdb *redis.Client, name string) {
	eventually(t, "nothing is left", func() bool {
		return rdb.Exists(t.Context(), name, "redisson_lock_queue:{"+name+"}", "redisson_lock_timeout:{"+name+"}").Val() == 0
	})
}

func kind(t *testing.T) kindtest.Kind {
	srv := kindtest.Single(t,
		func(c *holdfast.Client, name string, opts ...holdfast.Option) kindtest.Mutex {
			return fairlock.New(c, name, opts...)
		})
	srv.Waiters = func(ctx context.Context, rdb *redis.Client, name string) int64 {
		return rdb.LLen(ctx, "redisson_lock_queue:{"+name+"}").Val()
	}
	return kindtest.Kind{Name: "fairlock", Lease: 2 * time.Second, Queues: true}.On(t, srv)
}

// TestKind: what every kind of lock promises.
func TestKind(t *testing.T) { kindtest.Run(t, kind(t)) }

// TestCannotListenControl: a waiter that only asks for a place when it can listen never gets one where it cannot.
func TestCannotListenControl(t *testing.T) {
	defer defence.PlaceUnsubscribed.Without(t)()
	harm := kindtest.Harm(t, kind(t), "a waiter that cannot listen is granted the free lock")
	require.ErrorIs(t, harm, holdfast.ErrNotAcquired)
}

// TestBurstControl: the places of those who have left stay if they are not given back, and get more and more.
func TestBurstControl(t *testing.T) {
	defer defence.Undo.Without(t)()
	harm := kindtest.Harm(t, kind(t), "callers who leave cost no more than those who are served")
	require.ErrorContains(t, harm, "places and")
}
