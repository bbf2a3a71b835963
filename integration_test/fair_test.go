package integration_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

const (
	// fairEnv makes the test binary a process whose goroutines lock again and again: "<address> <goroutines>".
	fairEnv  = "HOLDFAST_TEST_FAIR"
	fairLock = "fair"
	// fairNext has an element for each goroutine that may go on.
	fairNext = "fair:next"
)

// lockFairly is what that process does, until it is killed.
func lockFairly(job string) error {
	addr, text, _ := strings.Cut(job, " ")
	goroutines, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 4 * goroutines})
	defer rdb.Close()
	c, err := holdfast.New(rdb, nil)
	if err != nil {
		return err
	}
	m := fairlock.New(c, fairLock)
	turn := func() error {
		if err := rdb.BLPop(ctx, 0, fairNext).Err(); err != nil {
			return err
		}
		return kindtest.Pair(ctx, m)
	}
	failed := make(chan error)
	for range goroutines {
		go func() {
			for {
				if err := turn(); err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

// fairQueue are those that wait, the next one first.
func fairQueue(t *testing.T, rdb redis.UniversalClient) []string {
	list, err := rdb.LRange(t.Context(), "redisson_lock_queue:{"+fairLock+"}", 0, -1).Result()
	require.NoError(t, err)
	return list
}

// fairQueued waits until so many wait.
func fairQueued(t *testing.T, rdb redis.UniversalClient, n int) {
	kindtest.Eventually(t, "they wait", func() bool { return len(fairQueue(t, rdb)) == n })
}

func fairGo(t *testing.T, rdb *redis.Client, n int) {
	require.NoError(t, rdb.RPush(t.Context(), fairNext, make([]any, n)...).Err())
}

// TestFairWaitersKilled: eight waiters of a process that is killed stand in front of a live one. The unlock itself hands the
// lock to that one. Control: a release that does not look whether anybody listens hands it to a dead one.
func TestFairWaitersKilled(t *testing.T) {
	const dead = 8
	unlock := func(t *testing.T, hook redis.Hook) (first, next, handed string) {
		srv := redistest.Start(t)
		rdb := srv.Client(t)
		if hook != nil {
			rdb.AddHook(hook)
		}
		killed := startProcess(t, fairEnv, srv.Addr(), dead)
		m := fairlock.New(newClient(t, rdb, nil), fairLock)
		h := kindtest.Lock(t, m)
		fairGo(t, rdb, dead)
		fairQueued(t, rdb, dead)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		defer group.Wait()
		defer cancel()
		release := make(chan struct{})
		defer close(release)
		group.Go(func() {
			live, err := m.Lock(ctx)
			if err == nil {
				<-release
				err = live.Unlock(context.Background())
			}
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
		fairQueued(t, rdb, dead+1)
		queue := fairQueue(t, rdb)
		killed.Kill()
		client, _, _ := strings.Cut(queue[0], ":")
		mailbox := "redisson_lock__channel:{" + fairLock + "}:" + client
		kindtest.Eventually(t, "nobody listens", func() bool { return kindtest.Listeners(t.Context(), rdb, mailbox) == 0 })
		require.NoError(t, h.Unlock(t.Context()))
		return queue[0], queue[dead], kindtest.State(t, m).Owner
	}
	_, live, owner := unlock(t, nil)
	require.Equal(t, live, owner)
	first, _, owner := unlock(t, mutant.Hook(lua.FairRelease, "if deaf[id] then return nil end", ""))
	require.Equal(t, first, owner, "control")
}

// waitersEnv makes the test binary a process that waits in a queue of a cluster until it is killed: "<address> <waiters>".
const waitersEnv = "HOLDFAST_TEST_FAIR_WAITERS"

func waitFairly(job string) error {
	addr, text, _ := strings.Cut(job, " ")
	waiters, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	c, err := holdfast.New(redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}}), nil)
	if err != nil {
		return err
	}
	m, failed := fairlock.New(c, fairLock), make(chan error)
	for range waiters {
		go func() {
			_, err := m.Lock(context.Background())
			failed <- err
		}()
	}
	return <-failed
}

// killedWaiters wait in the killed process. manyClaims are too many: after one for it, one for the grant, two for slowness.
const killedWaiters, manyClaims = 7, 5

// TestFairKilledInCluster: a process whose waiters stand in front is killed. It costs one claim at most, and not one for each
// of them: also where the server does not know who listens, as a cluster before Redis 7.
func TestFairKilledInCluster(t *testing.T) {
	level.ForAll(t)
	t.Parallel()
	onOutermost(t, func(t *testing.T, p redistest.Program) {
		t.Parallel()
		c := redistest.StartCluster(t, 2, 1, redistest.Exec(p.Path))
		require.Less(t, claimsOfKilled(t, c), int64(manyClaims))
		require.Less(t, claimsOfKilled(t, c, unknown()...), int64(manyClaims), "not known who listens")
	})
}

// TestFairKilledInClusterControl: where nobody remembers who did not take the lock, it is one for each.
func TestFairKilledInClusterControl(t *testing.T) {
	level.ForAll(t)
	t.Parallel()
	c := redistest.StartCluster(t, 2, 1)
	require.GreaterOrEqual(t, claimsOfKilled(t, c, unknown("since[id] = math.max(since[id] or 0, ended)", "")...),
		int64(manyClaims))
}

// unknown makes the scripts believe that the server does not know who listens, and edits them.
func unknown(edits ...string) []redis.Hook {
	edits = append(edits, "return counted[2]", "return nil")
	return []redis.Hook{mutant.Hook(lua.FairPoll, edits...), mutant.Hook(lua.FairRelease, edits...),
		mutant.Hook(lua.FairAcquire, edits...)}
}

const tick = 5 * time.Millisecond

// others reports whether others than this client listen at any node.
func others(t *testing.T, c *redistest.Cluster, client string) bool {
	for _, node := range c.Nodes {
		rdb := node.Client(t)
		channels := append(rdb.PubSubChannels(t.Context(), "*").Val(), rdb.PubSubShardChannels(t.Context(), "*").Val()...)
		_ = rdb.Close()
		if slices.ContainsFunc(channels, func(channel string) bool { return !strings.HasSuffix(channel, client) }) {
			return true
		}
	}
	return false
}

// claimsOfKilled returns how often the lock was handed over until a waiter behind the killed ones had it, or too often.
func claimsOfKilled(t *testing.T, c *redistest.Cluster, hooks ...redis.Hook) int64 {
	node, rdb := c.Master(t, fairLock), c.Client(t)
	for _, h := range hooks {
		rdb.AddHook(h)
	}
	node.Command(t, "FLUSHALL")
	ctx, leave := context.WithCancel(t.Context())
	m := fairlock.New(newClient(t, rdb, nil), fairLock)
	h := kindtest.Take(ctx, t, m.Lock)
	process := startProcess(t, waitersEnv, node.Addr(), killedWaiters)
	fairQueued(t, rdb, killedWaiters)
	granted := make(chan error, 1)
	go func() { granted <- kindtest.Pair(ctx, m) }()
	fairQueued(t, rdb, killedWaiters+1)
	client, _, _ := strings.Cut(h.Owner(), ":")
	require.True(t, others(t, c, client), "the process listens")
	process.Kill()
	require.Eventually(t, func() bool { return !others(t, c, client) }, patience, tick, "the server has noticed")

	node.ResetStats(t)
	require.NoError(t, h.Unlock(ctx))
	claims := func() int64 {
		calls := node.CommandCalls(t)
		return calls["publish"] + calls["spublish"]
	}
	require.Eventually(t, func() bool { return claims() >= manyClaims || len(granted) > 0 }, patience, tick)
	n := claims()
	leave()
	if err := <-granted; n < manyClaims {
		require.NoError(t, err)
	}
	return n
}
