package fairlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const patience = kindtest.Patience

var (
	lock, take, unlock = kindtest.Lock, kindtest.Take, kindtest.Unlock
	begin, refused     = kindtest.Begin, kindtest.Refused
	script, tells      = kindtest.Script, kindtest.Tells

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

// wait starts a waiter and returns when it has its place, behind the others.
func wait(ctx context.Context, t *testing.T, rdb *redis.Client, m *fairlock.Mutex, opts ...holdfast.Option) *kindtest.Pending {
	before := len(queued(t, rdb, m.Name()))
	p := kindtest.Begin(ctx, t, m.Lock, opts...)
	eventually(t, "a place", func() bool { return len(queued(t, rdb, m.Name())) == before+1 })
	return p
}

// TestNobodyBarges: a free lock with a waiter that can be reached is not for who comes by.
func TestNobodyBarges(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	m := fairlock.New(newClient(t, rdb, nil), uniqueName(t))
	const there = "00000000-0000-0000-0000-000000000000"
	mailbox(t, rdb, m.Name(), there)
	foreign(t, rdb, m.Name(), there+":h1", time.Minute)
	refused(t.Context(), t, m.TryLock)
	refused(t.Context(), t, m.Lock, holdfast.Wait(0))
	require.Equal(t, there+":h1", kindtest.State(t, m).Owner, "it was handed the lock instead")
}

// TestOnlyTheDeadAreQueued: who cannot be reached keeps its place, and keeps nobody from a free lock.
func TestOnlyTheDeadAreQueued(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	m := fairlock.New(newClient(t, rdb, nil), uniqueName(t))
	const away = "00000000-0000-0000-0000-000000000000:h1"
	foreign(t, rdb, m.Name(), away, time.Minute)
	for _, lock := range []func(context.Context, ...holdfast.Option) (*holdfast.Hold, error){m.TryLock, m.Lock} {
		h, err := lock(t.Context(), holdfast.Wait(patience))
		require.NoError(t, err)
		require.Equal(t, []string{away}, queued(t, rdb, m.Name()))
		unlock(t, h)
	}
	require.Equal(t, []string{away}, queued(t, rdb, m.Name()))
}

// TestLostWithoutAWord: somebody deletes the key while another waits. No message tells of it; the waiter finds out by itself.
// Control: without the polls it does not, and the lock is free for all that time.
func TestLostWithoutAWord(t *testing.T) {
	lost := func(t *testing.T) (*kindtest.Pending, *redis.Client) {
		srv := redistest.Start(t)
		rdb := srv.Client(t)
		holder, m := fairlock.New(newClient(t, rdb, nil), "lost"),
			fairlock.New(newClient(t, srv.Client(t), nil), "lost")
		_ = lock(t, holder, holdfast.NoRenewal())
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		w := wait(ctx, t, rdb, m)
		require.NoError(t, rdb.Del(t.Context(), "lost").Err())
		return w, rdb
	}
	w, _ := lost(t)
	require.NoError(t, w.Hold().Unlock(t.Context()))

	defer defence.Poll.Without(t)()
	w, rdb := lost(t)
	const never = 3 * time.Second // three polls
	<-time.After(never)
	require.False(t, w.Over(), "control: told without a poll")
	require.Len(t, queued(t, rdb, "lost"), 1)
}

// TestOldMessage: the word of a grant comes when that is over and its owner waits again. It is not
// taken for a new one. Control: without a look at the time of the grant it is, and two are inside.
func TestOldMessage(t *testing.T) {
	old := func(t *testing.T) (w *kindtest.Pending, first uint64, other *holdfast.Hold) {
		rdb := redistest.Shared(t).Client(t)
		name := uniqueName(t)
		c := newClient(t, rdb, nil)
		m, o := fairlock.New(c, name), fairlock.New(newClient(t, rdb, nil), name)
		tap := mailbox(t, rdb, name, c.ID())
		ctx := holdfast.WithOwner(t.Context())
		other = lock(t, o)
		w = wait(ctx, t, rdb, m)
		unlock(t, other)
		h := w.Hold()
		message, err := tap.ReceiveMessage(t.Context())
		require.NoError(t, err)
		unlock(t, h)
		other = lock(t, o)
		w = wait(ctx, t, rdb, m)
		require.Equal(t, h.Owner(), queued(t, rdb, name)[0], "the same owner")
		require.EqualValues(t, 2, rdb.Publish(t.Context(), message.Channel, message.Payload).Val())
		return w, h.Token(), other
	}
	w, first, other := old(t)
	unlock(t, other)
	h := w.Hold()
	require.Greater(t, h.Token(), other.Token())
	require.Greater(t, h.Token(), first)
	unlock(t, h)

	defer defence.OwnMessage.Without(t)()
	w, first, other = old(t)
	h = w.Hold()
	require.Equal(t, first, h.Token(), "control")
	unlock(t, other)
	_ = h.Unlock(t.Context())
}

// TestPlainLease: a hold that is not renewed has its whole lease, also when it was handed over with a claim.
func TestPlainLease(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	m := fairlock.New(newClient(t, rdb, nil), uniqueName(t))
	first := lock(t, m)
	w := wait(t.Context(), t, rdb, m, holdfast.NoRenewal(), holdfast.Lease(time.Minute))
	unlock(t, first)
	h := w.Hold()
	require.Greater(t, time.Until(h.Deadline()), 50*time.Second)
	require.Greater(t, kindtest.State(t, m).Remaining, 50*time.Second)
	unlock(t, h)
}

// crowd has n goroutines of one client wait for a lock that another client holds, and returns once
// all have places in the queue. They have one subscription, and so one connection. leave ends their wait.
func crowd(tb testing.TB, srv *redistest.Server, n int, ctx context.Context) (leave func()) {
	tb.Helper()
	h := lock(tb, fairlock.New(newClient(tb, srv.Client(tb), nil), "a"))
	m := fairlock.New(newClient(tb, srv.Client(tb), &holdfast.Options{RetryBudget: patience}), "a") // ten thousand, on a busy machine
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			h, err := m.Lock(ctx)
			if err == nil {
				err = h.Unlock(context.Background())
			}
			if err != nil && ctx.Err() == nil {
				tb.Error(err)
			}
		})
	}
	rdb := srv.Client(tb)
	require.Eventually(tb, func() bool {
		return rdb.LLen(context.Background(), "redisson_lock_queue:{a}").Val() == int64(n)
	}, 5*patience, 10*time.Millisecond)
	var channels []string
	require.Eventually(tb, func() bool { // that of a crowd before may linger
		channels = rdb.PubSubChannels(context.Background(), "*").Val()
		return len(channels) == 1
	}, 5*patience, 10*time.Millisecond)
	require.EqualValues(tb, 1, kindtest.Listeners(context.Background(), rdb, channels[0]))
	require.Equal(tb, n, kindtest.State(tb, m).Waiters)
	return func() {
		unlock(tb, h)
		group.Wait()
	}
}

// TestWaitingCosts: a goroutine that waits is parked on a small stack, and has little on the heap. So it asks the server
// nothing itself, see sender.go.
func TestWaitingCosts(t *testing.T) {
	const n = 10000
	for name, ctx := range map[string]context.Context{"background": context.Background(), "cancellable": t.Context()} {
		t.Run(name, func(t *testing.T) {
			srv := redistest.Start(t)
			kindtest.WaitersCost(t, n, waiterBudget, func() (leave func()) { return crowd(t, srv, n, ctx) })
		})
	}
}

// TestWaiterWithoutReadTimeout: a waiter whose question gets no answer is told of an outage when the retry budget is over, also
// where go-redis waits for ever, and has left its place. Control: it waits for an answer until its own time is over.
func TestWaiterWithoutReadTimeout(t *testing.T) {
	const budget = 300 * time.Millisecond
	leaves := func(wait time.Duration) (early bool) {
		srv := redistest.Start(t)
		direct, proxy := srv.Client(t), faultproxy.New(t, srv.Addr())
		kindtest.Load(t, direct, lua.FairAcquire)
		held := lock(t, fairlock.New(newClient(t, direct, nil), "a"))
		rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = -1 })
		c := newClient(t, rdb, &holdfast.Options{RetryBudget: budget})
		m := fairlock.New(c, "a")
		unlock(t, lock(t, fairlock.New(c, "b")))                            // it knows the server's clock
		place := proxy.On(script(lua.FairAcquire), 2, faultproxy.HoldReply) // the first asks whether it is free
		begun := time.Now()
		_, err := m.Lock(t.Context(), holdfast.Wait(wait))
		early = time.Since(begun) < wait
		require.Error(t, err)
		<-place.Fired()
		proxy.CutAll()
		unlock(t, held)
		eventually(t, "its place is given back", func() bool { return len(queued(t, direct, "a")) == 0 && direct.Exists(t.Context(), "a").Val() == 0 })
		return early
	}
	require.True(t, leaves(patience))
	defer defence.AnswerWithin.Without(t)()
	require.False(t, leaves(4*budget), "control")
}

// TestWaitersOfWhatIsNoLock: callers with little time, for a key of another kind, are told that or that their time is over, and
// not of an outage.
func TestWaitersOfWhatIsNoLock(t *testing.T) {
	const callers, calls = 32, 20
	rdb := redistest.Start(t).Client(t)
	c, err := holdfast.New(rdb, nil)
	require.NoError(t, err)
	unlock(t, lock(t, fairlock.New(c, "b"))) // it has had an answer
	require.NoError(t, rdb.Set(t.Context(), "a", 5, 0).Err())
	m := fairlock.New(c, "a")
	var g errgroup.Group
	for range callers {
		g.Go(func() error {
			for range calls {
				if _, err := m.Lock(t.Context(), holdfast.Wait(2*time.Millisecond)); err == nil || errors.Is(err, holdfast.ErrUnavailable) {
					return fmt.Errorf("told %w", err)
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	_ = c.Close(t.Context()) // names what was not given back: this key is not the lock's
}
