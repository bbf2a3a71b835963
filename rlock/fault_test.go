package rlock_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// proxied is a lock whose client goes through a proxy, and direct access to the same server.
type proxied struct {
	srv    *redistest.Server
	proxy  *faultproxy.Proxy
	direct *redis.Client
	client *holdfast.Client
	mutex  *rlock.Mutex
}

func newProxied(t *testing.T, opts *holdfast.Options) *proxied {
	return proxiedTo(t, redistest.Start(t), 200*time.Millisecond, opts)
}

func proxiedTo(t *testing.T, srv *redistest.Server, read time.Duration, opts *holdfast.Options) *proxied {
	rdb, proxy := kindtest.Behind(t, srv.Addr(), read)
	c := newClient(t, rdb, opts)
	return &proxied{srv, proxy, srv.Client(t), c, rlock.New(c, "a")}
}

// nothingLeft waits until the lock is free and stays so through the stragglers of the test, and every key has a TTL.
func (p *proxied) nothingLeft(t *testing.T) {
	require.True(t, free(t, p.direct, "a"))
	for _, key := range p.direct.Keys(context.Background(), "*").Val() {
		require.Positive(t, p.direct.PTTL(context.Background(), key).Val(), "key %s has no time to live", key)
	}
}

// TestLooksLeaveNothingOpen: who only looks, and gets no answer, is not told that something may have happened.
func TestLooksLeaveNothingOpen(t *testing.T) {
	t.Cleanup(defence.Resend.Without(t))
	p := newProxied(t, nil)
	kindtest.EachFault(t, func(t *testing.T, fault faultproxy.Action) {
		p.proxy.On(script(lua.State), 1, fault)
		tells(t, kindtest.Err(p.mutex.State(t.Context())), holdfast.ErrUnavailable, not(holdfast.ErrUncertain))
	})
}

// TestForceUnlockForcesOne: a forced unlock's reply is lost, and a waiter gets the lock before the repeat. The waiter keeps it.
func TestForceUnlockForcesOne(t *testing.T) {
	t.Parallel()
	p := newProxied(t, nil)
	warm(t, p)
	lock(t, p.mutex)
	rule := p.proxy.On(script(lua.Release), 1, faultproxy.BlackHole)
	other := rlock.New(newClient(t, p.srv.Client(t), nil), "a")
	next := begin(t.Context(), t, func(ctx context.Context, _ ...holdfast.Option) (*holdfast.Hold, error) {
		<-rule.Fired() // the library waits for the answer of a release that the server has not seen: play it
		if err := p.direct.Del(ctx, "a").Err(); err != nil {
			return nil, err
		}
		return other.Lock(ctx, holdfast.Wait(patience))
	})
	kindtest.Forced(t, p.mutex)
	h := next.Hold()
	require.Equal(t, 1, count(t, p.direct, "a", h.Owner()))
	unlock(t, h)
}

// TestUnlockAfterAnother: a lock was lost, another client has had it, and the answer to the release is lost.
func TestUnlockAfterAnother(t *testing.T) {
	t.Parallel()
	p := newProxied(t, nil)
	warm(t, p)
	h := lock(t, p.mutex)
	require.NoError(t, p.direct.Del(t.Context(), "a").Err())
	other := lock(t, rlock.New(newClient(t, p.srv.Client(t), nil), "a"))
	unlock(t, other)
	p.proxy.On(script(lua.Release), 1, faultproxy.DropReply)
	err := h.Unlock(t.Context())
	tells(t, err, holdfast.ErrUncertain, fmt.Sprintf(`the last token was "%d", and not %d`, other.Token(), h.Token()))
}

// TestTryLockTooLate: the answer to TryLock comes when its lease cannot be trusted any more. The caller has lost nothing.
func TestTryLockTooLate(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxiedTo(t, srv, patience, nil)
	warm(t, p)
	rule := p.proxy.On(script(lua.Acquire), 1, faultproxy.HoldReply)
	tries := begin(t.Context(), t, p.mutex.TryLock, holdfast.Lease(50*time.Millisecond))
	<-rule.Fired()
	eventually(t, "its lease ends", func() bool { return free(t, p.direct, "a") })
	rule.Release()
	err := tries.Err()
	tells(t, err, holdfast.ErrUnavailable, not(holdfast.ErrLost), "use a longer lease")
}

// TestTryLockBesideAQuestion: an owner that asks in another call, and has no answer yet, is refused and told so.
func TestTryLockBesideAQuestion(t *testing.T) {
	t.Parallel()
	p := proxiedTo(t, redistest.Start(t), patience, nil)
	warm(t, p)
	owner := holdfast.WithOwner(t.Context())
	rule := p.proxy.On(script(lua.Acquire), 1, faultproxy.HoldReply)
	asks := begin(owner, t, p.mutex.Lock)
	<-rule.Fired()
	tells(t, kindtest.Err(p.mutex.TryLock(owner)), holdfast.ErrNotAcquired, "another call of this client asks for it")
	rule.Release()
	unlock(t, asks.Hold())
}

// warm makes the scripts known to the server.
func warm(t *testing.T, p *proxied) {
	h := lock(t, p.mutex)
	unlock(t, take(h.Context(), t, p.mutex.Lock), h)
}

// TestUnlockIsDetachedControl: with the caller's cancellation let through, an unlock does not arrive.
func TestUnlockIsDetachedControl(t *testing.T) {
	p := newProxied(t, nil)
	warm(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	h := take(ctx, t, p.mutex.Lock)
	cancel()
	before := p.proxy.Seen(script(lua.Release))
	t.Cleanup(defence.Undo.Without(t))
	t.Cleanup(defence.Detach.Without(t))
	require.Error(t, h.Unlock(ctx))
	require.Equal(t, before, p.proxy.Seen(script(lua.Release)))
	require.False(t, free(t, p.direct, "a"))
}

// TestLostAndLockedAgain: an owner whose hold ran out locks again. What still gives the old hold back leaves the new one alone.
func TestLostAndLockedAgain(t *testing.T) {
	again := func(t *testing.T) (p *proxied, h *holdfast.Hold) {
		p = newProxied(t, nil)
		warm(t, p)
		owner := holdfast.WithOwner(t.Context())
		before := p.proxy.Seen(script(lua.Release))
		undo := p.proxy.On(script(lua.Release), 2, faultproxy.HoldReply) // of three
		p.proxy.DelayRequest(script(lua.Release), 3, time.Hour)          // until the owner has locked again
		first := take(owner, t, p.mutex.Lock, holdfast.Lease(time.Second), holdfast.NoRenewal())
		require.ErrorIs(t, awaitEnd(t, first), holdfast.ErrLost)
		<-undo.Fired()
		h = take(owner, t, p.mutex.Lock)
		p.proxy.Clear()
		eventually(t, "the undo goes on", func() bool { return p.proxy.Seen(script(lua.Release)) >= before+3 })
		require.NoError(t, p.direct.Ping(t.Context()).Err())
		return p, h
	}
	t.Run("kept", func(t *testing.T) {
		p, h := again(t)
		unlock(t, h)
		p.nothingLeft(t)
	})
	t.Run("control", func(t *testing.T) {
		t.Cleanup(defence.FreshOwner.Without(t))
		_, h := again(t)
		require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
	})
}

// TestStringFaults: a question beside strings meets each fault. It is repeated: a free lock is granted once, and
// of a string nothing is changed. What may have been granted is given back, and nobody is told of trouble where
// there was nothing but the string.
func TestStringFaults(t *testing.T) {
	kindtest.EachFault(t, func(t *testing.T, fault faultproxy.Action) {
		t.Parallel()
		logged, closed := besideAString(t, fault)
		require.NoError(t, closed)
		require.Equal(t, []string{""}, logged)
	})
}

// TestStringFaultsControl: else Close says that locks are left which never were.
func TestStringFaultsControl(t *testing.T) {
	defer defence.BesideStrings.Without(t)()
	_, closed := besideAString(t, faultproxy.DropReply)
	require.ErrorContains(t, closed, "may be left in Redis")
}

// besideAString has a fault happen to a question for a free lock, and to one for a string, and closes the client.
func besideAString(t *testing.T, fault faultproxy.Action) (logged []string, closed error) {
	log, ctx := &kindtest.Log{}, t.Context()
	p := newProxied(t, &holdfast.Options{Logger: log.Logger()})
	m := rlock.New(p.client, "a", rlock.RespectStrings())
	unlock(t, lock(t, m)) // the scripts are known from now on

	rule := p.proxy.On(script(lua.AcquireBeside), 1, fault)
	h := lock(t, m)
	require.Equal(t, 1, rule.Count())
	require.Equal(t, 1, count(t, p.direct, "a", h.Owner()))
	unlock(t, h)

	p.proxy.Clear()
	require.NoError(t, p.direct.Set(ctx, "a", "whose", time.Minute).Err())
	rule = p.proxy.On(script(lua.AcquireBeside), 1, fault)
	refused(ctx, t, m.Lock, holdfast.Wait(time.Second))
	require.Equal(t, 1, rule.Count())
	closed = p.client.Close(ctx)
	require.Equal(t, "whose", p.direct.Get(ctx, "a").Val())
	return log.Lines(), closed
}

// newTimed is newProxied with a server whose clock can be moved.
func newTimed(t *testing.T, read time.Duration) *proxied {
	return proxiedTo(t, redistest.Start(t, redistest.Clock()), read, nil)
}

// TestServersClockIsSet: each jump forwards of the server's clock, or another server's, costs a lock one more round trip.
func TestServersClockIsSet(t *testing.T) {
	p := newTimed(t, patience)
	warm(t, p)
	scripts := func() int {
		before := p.proxy.Seen(script(lua.Acquire))
		unlock(t, lock(t, p.mutex))
		return p.proxy.Seen(script(lua.Acquire)) - before
	}
	require.Equal(t, 1, scripts())
	p.srv.MoveClock(t, time.Hour)
	require.Equal(t, 2, scripts())
	require.Equal(t, 1, scripts())
	p.srv.MoveClock(t, -2*time.Hour)
	require.Equal(t, 1, scripts())
	p.srv.MoveClock(t, time.Minute)
	require.Equal(t, 2, scripts())
	require.Equal(t, 1, scripts())
	p.nothingLeft(t)
}

// TestSlowWay: the network keeps every request for too long. Each refusal gives the next one more time, so that it gets there.
func TestSlowWay(t *testing.T) {
	p := newTimed(t, 3*time.Second)
	warm(t, p)
	before := p.proxy.Seen(script(lua.Acquire))
	var slow []*faultproxy.Rule
	for i := range 2 {
		slow = append(slow, p.proxy.DelayRequest(script(lua.Acquire), i+1, time.Hour))
	}
	got := begin(t.Context(), t, p.mutex.Lock)
	for _, rule := range slow {
		<-rule.Fired()
		p.srv.MoveClock(t, 10*time.Second) // spares the wait
		rule.Release()
	}
	unlock(t, got.Hold())
	require.Equal(t, before+3, p.proxy.Seen(script(lua.Acquire)))
	p.nothingLeft(t)
}

// TestSilentServerKeepsNoGoroutines: who leaves while the server does not answer leaves one goroutine for all behind, however
// many they are, and however long the lease; and when it answers again all is given back.
func TestSilentServerKeepsNoGoroutines(t *testing.T) {
	srv := redistest.Start(t)
	proxy := faultproxy.New(t, srv.Addr())
	rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) {
		o.ReadTimeout, o.PoolTimeout, o.PoolSize = 200*time.Millisecond, 200*time.Millisecond, 5
	})
	c := newClient(t, rdb, &holdfast.Options{Lease: time.Hour})
	unlock(t, lock(t, rlock.New(c, "warm")))
	direct := srv.Client(t)
	name := func(i int) string { return fmt.Sprint("silent:", i) }
	const each = 300
	left := 0
	proxy.LoseReplies(true)
	for range 3 {
		leak.Together(each, func(i int) {
			_, err := rlock.New(c, name(left+i)).Lock(context.Background(), holdfast.Wait(100*time.Millisecond))
			assert.Error(t, err, "granted without an answer")
		})
		left += each
		// and the watchdog
		eventually(t, "only the undoer is left", func() bool { return goroutines("holdfast/internal/engine.") <= 2 })
	}
	before := srv.CommandCalls(t)["evalsha"]
	proxy.LoseReplies(false)
	proxy.CutAll() // a connection that has lost a reply loses all
	eventually(t, "all are given back", func() bool {
		for i := range left {
			if !free(t, direct, name(i)) {
				return false
			}
		}
		return true
	})
	eventually(t, "and it ends", func() bool { return goroutines("holdfast/internal/engine.") <= 1 })
	require.LessOrEqual(t, srv.CommandCalls(t)["evalsha"]-before, int64(4*left),
		"three releases for each, and few are sent again")
}

// goroutines counts those that have a function with this in its name.
func goroutines(function string) (n int) {
	buf := make([]byte, 1<<22)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "created by github.com/holdfast-go/"+function) ||
			strings.Contains(g, "holdfast/internal/task.") {
			n++
		}
	}
	return n
}

// lateRenewal has an owner lock and unlock while the network keeps a renewal or an extension, and lock again for a shorter
// time. It returns by how much the second lease is longer than was asked for when that request has come to the server.
func lateRenewal(t *testing.T, extend bool) time.Duration {
	const once = time.Second // after which an extension without an answer is not repeated
	p := proxiedTo(t, redistest.Start(t), once, &holdfast.Options{RetryBudget: once})
	ctx := holdfast.WithOwner(t.Context())
	kindtest.Load(t, p.direct, lua.Renew)
	kept := p.proxy.DelayRequest(script(lua.Renew), 1, time.Hour)
	lease := time.Minute
	if !extend {
		lease = 3 * time.Second
	}
	h := take(ctx, t, p.mutex.Lock, holdfast.Lease(lease))
	if extend {
		require.ErrorIs(t, h.Extend(t.Context(), time.Minute), holdfast.ErrUncertain)
	}
	<-kept.Fired()
	unlock(t, h)

	again := take(ctx, t, p.mutex.Lock, holdfast.Lease(lease/2), holdfast.NoRenewal())
	before := p.srv.CommandCalls(t)["hexists"] // the script's question whose the lock is
	kept.Release()
	eventually(t, "it has come", func() bool { return p.srv.CommandCalls(t)["hexists"] > before })
	left := p.direct.PTTL(t.Context(), "a").Val()
	unlock(t, again)
	return left - lease/2
}

// TestLateRenewal: what the network keeps of one lease does not lengthen the next one of the same owner.
func TestLateRenewal(t *testing.T) {
	for _, extend := range []bool{false, true} {
		require.LessOrEqual(t, lateRenewal(t, extend), time.Duration(0))
	}

	// The control: the owner has the same id again.
	t.Cleanup(defence.FreshOwner.Without(t))
	for _, extend := range []bool{false, true} {
		require.Positive(t, lateRenewal(t, extend))
	}
}

// leftInMovingSlot leaves a lock that is to stay for an hour while a cluster moves its slot. It tells for how long the lock is
// taken then, if it is. All keys of the script are there, also the one with a head start, as one who waits far away leaves it:
// else the cluster refuses the script until the move has ended.
func leftInMovingSlot(t *testing.T, c *redistest.Cluster, hooks ...redis.Hook) time.Duration {
	rdb, name := c.Client(t), uniqueName(t)
	for _, hook := range hooks {
		rdb.AddHook(hook)
	}
	h := lock(t, rlock.New(newClient(t, rdb, nil), name), holdfast.HoldAtLeast(time.Hour))
	require.NoError(t, rdb.Set(t.Context(), "redisson_lock__channel:{"+name+"}", "50", time.Hour).Err())
	to := c.Nodes[0]
	if c.Master(t, name) == to {
		to = c.Nodes[1]
	}
	move := c.BeginMove(t, name, to)
	err := h.Unlock(t.Context())
	left := move.From.Client(t).PTTL(t.Context(), name).Val()
	require.Equal(t, err == nil, left > 0, "%v", err)
	move.Keys(t)
	move.Finish(t)
	return left
}

// TestLeaveInMovingSlot: a lock that is to stay stays while its slot is moved. The control: not if its key is gone in between.
func TestLeaveInMovingSlot(t *testing.T) {
	level.ForAll(t)
	redistest.EachProgram(t, func(t *testing.T, p redistest.Program) {
		c := redistest.StartCluster(t, 2, 0, redistest.Exec(p.Path))
		require.Greater(t, leftInMovingSlot(t, c), time.Hour-time.Minute)
		require.LessOrEqual(t, leftInMovingSlot(t, c,
			mutant.Hook(lua.Leave, "type(redis.pcall('HDEL', name, '')) == 'number'", "false")), time.Duration(0))
	})
}

// TestLeaveWithoutHDEL: who may not run HDEL leaves a lock for the same time, and is not its owner any more.
func TestLeaveWithoutHDEL(t *testing.T) {
	srv := redistest.Start(t)
	srv.Command(t, "ACL", "SETUSER", "default", "-hdel")
	rdb := srv.Client(t)
	m := rlock.New(newClient(t, rdb, nil), "a", holdfast.HoldAtLeast(time.Hour))
	h := lock(t, m)
	unlock(t, h)
	require.Greater(t, rdb.PTTL(t.Context(), "a").Val(), time.Hour-time.Minute)
	require.EqualValues(t, 1, rdb.HLen(t.Context(), "a").Val())
	require.Zero(t, count(t, rdb, "a", h.Owner()))

	// The control: a key that is made anew has no time to live of its own.
	require.NoError(t, rdb.Del(t.Context(), "a").Err())
	rdb.AddHook(mutant.Hook(lua.Leave, "\n  call('PEXPIRE', name, rest)\n", "\n"))
	unlock(t, lock(t, m))
	require.Negative(t, rdb.PTTL(t.Context(), "a").Val())
}
