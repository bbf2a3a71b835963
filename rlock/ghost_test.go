package rlock_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// newTimed is newProxied with a server whose clock can be moved.
func newTimed(t *testing.T, read time.Duration) *proxied {
	return proxiedTo(t, redistest.Start(t, redistest.Clock()), read, nil)
}

// TestServersClockIsSet: each time that the server's clock jumps forwards a lock costs one more
// round trip, and only one. It may be another server's clock.
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

// TestSlowWay: the network keeps every request for longer than it may take. Each refusal gives the
// next one more time, so that it gets there.
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

// TestSilentServerKeepsNoGoroutines: who leaves while the server does not answer leaves one
// goroutine for all behind, however many they are, and however long the lease; and when it answers
// again all is given back.
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
		var g sync.WaitGroup
		for range each {
			m := rlock.New(c, name(left))
			left++
			g.Go(func() {
				_, err := m.Lock(context.Background(), holdfast.Wait(100*time.Millisecond))
				if err == nil {
					t.Error("granted without an answer")
				}
			})
		}
		g.Wait()
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

// lateRenewal has an owner lock and unlock while the network keeps a renewal or an extension, and
// lock again for a shorter time. It returns by how much the second lease is longer than was asked
// for when that request has come to the server.
func lateRenewal(t *testing.T, extend bool) time.Duration {
	p := newProxied(t, &holdfast.Options{RetryBudget: 200 * time.Millisecond})
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

// TestLateRenewal: what the network keeps of one lease does not lengthen the next one of the same
// owner.
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

// leftInMovingSlot leaves a lock that is to stay for an hour while a cluster moves its slot. It
// tells for how long the lock is taken then, if it is. All keys of the script are there, also the
// one with a head start, as one who waits far away leaves it: else the cluster refuses the script
// until the move has ended.
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

// TestLeaveInMovingSlot: a lock that is to stay stays, also where its slot is being moved while it
// is left. The control: not if its key is gone in between.
func TestLeaveInMovingSlot(t *testing.T) {
	level.ForAll(t)
	for _, p := range redistest.Programs(t) {
		t.Run(p.Name, func(t *testing.T) {
			c := redistest.StartCluster(t, 2, 0, redistest.Exec(p.Path))
			require.Greater(t, leftInMovingSlot(t, c), time.Hour-time.Minute)
			require.LessOrEqual(t, leftInMovingSlot(t, c,
				mutant.Hook(lua.Leave, "type(redis.pcall('HDEL', name, '')) == 'number'", "false")), time.Duration(0))
		})
	}
}

// TestLeaveWithoutHDEL: who may not run HDEL leaves a lock for the same time, and is not its owner
// any more.
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
