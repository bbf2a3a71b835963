package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// sameKeys are the kinds that have their locks in the same keys, and the scripts by which each asks for one.
var sameKeys = []struct {
	name    string
	lock    func(*holdfast.Client, string, ...holdfast.Option) holdfast.Locker
	acquire *lua.Script
}{
	{"rlock", func(c *holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
		return rlock.New(c, name, opts...)
	}, lua.Acquire},
	{"fairlock", func(c *holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
		return fairlock.New(c, name, opts...)
	}, lua.FairAcquire},
}

// TestKindsDoNotReenterEachOther: under a hold of one kind the other is refused the name before anything is sent; both go on.
func TestKindsDoNotReenterEachOther(t *testing.T) {
	for i, outer := range sameKeys {
		inner := sameKeys[1-i]
		t.Run(inner.name+" under "+outer.name, func(t *testing.T) {
			srv := redistest.Start(t)
			c := newClient(t, srv.Client(t), nil)
			h := kindtest.Lock(t, outer.lock(c, "x"))
			srv.ResetStats(t)
			kindtest.Tells(t, kindtest.Err(inner.lock(c, "x").Lock(h.Context())), holdfast.ErrInvalid, outer.name)
			require.ErrorIs(t, kindtest.Err(inner.lock(c, "x").TryLock(h.Context())), holdfast.ErrInvalid)
			calls := srv.CommandCalls(t)
			require.Zero(t, calls["evalsha"]+calls["eval"])

			kindtest.Unlock(t, kindtest.Take(h.Context(), t, inner.lock(c, "y").Lock)) // another name
			again := kindtest.Take(h.Context(), t, outer.lock(c, "x").Lock)            // its own kind
			kindtest.Unlock(t, again, h)

			defer defence.OneKind.Without(t)()
			h = kindtest.Lock(t, outer.lock(c, "x"))
			kindtest.Refused(h.Context(), t, inner.lock(c, "x").TryLock) // control: it would wait for itself
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}

// TestKindsHaveIDsOfTheirOwn: a repeated attempt of one kind, under a hold of the other, is refused and leaves its hash alone.
func TestKindsHaveIDsOfTheirOwn(t *testing.T) {
	defer defence.OneKind.Without(t)() // else it would never get there
	for i, outer := range sameKeys {
		inner := sameKeys[1-i]
		attempt := func(t *testing.T) error {
			srv := redistest.Start(t)
			proxy := faultproxy.New(t, srv.Addr())
			c, direct := newClient(t, redistest.NewClient(t, proxy.Addr()), nil), srv.Client(t)
			h := kindtest.Lock(t, outer.lock(c, "x"))
			rule := proxy.On(faultproxy.Script(inner.acquire.Hash()), 1, faultproxy.DropReply)
			second, err := inner.lock(c, "x").TryLock(h.Context())
			require.Equal(t, 1, rule.Count())
			if err == nil {
				require.NoError(t, second.Unlock(t.Context()))
				require.Zero(t, direct.Exists(t.Context(), "x").Val(), "free under a hold that lives")
			}
			require.NoError(t, context.Cause(h.Context()))
			_ = h.Unlock(t.Context())
			return err
		}
		t.Run(inner.name+" under "+outer.name, func(t *testing.T) {
			require.ErrorIs(t, attempt(t), holdfast.ErrNotAcquired)
			defer defence.KindIDs.Without(t)()
			require.NoError(t, attempt(t), "control: it is taken for the other's holder")
		})
	}
}

// TestKept: on every topology a lock is kept, and called back by another client before it is idle for
// too long. In a cluster that does not know who listens, before Redis 7, it is not kept.
func TestKept(t *testing.T) {
	topology.Each(t, topology.Single|topology.Replicated|topology.Sentinel|topology.Cluster,
		func(t *testing.T, top topology.Topology) {
			names := []string{"orders:42"}
			if top.Kind() == topology.Cluster {
				names = append(names, "{orders}:43", "x", "y", "z")
			}
			for _, name := range names {
				keptAndCalled(t, func() redis.UniversalClient { return top.Connect(t) }, name)
			}
		})
}

func keptAndCalled(t *testing.T, connect func() redis.UniversalClient, name string) {
	rdb := connect()
	m := rlock.New(newClient(t, rdb, nil), name, rlock.Keep(time.Hour))
	var last uint64
	pair := func() (kept bool) {
		h := kindtest.Lock(t, m)
		require.Greater(t, h.Token(), last)
		last = h.Token()
		require.NoError(t, h.Unlock(t.Context()))
		return kindtest.State(t, m).Owner == h.Owner()
	}
	if c, cluster := rdb.(*redis.ClusterClient); cluster && c.Do(t.Context(), "PUBSUB", "SHARDNUMSUB", "x").Err() != nil {
		for range 20 {
			require.False(t, pair(), "who waits is not known")
		}
	} else {
		require.Eventually(t, pair, patience, time.Millisecond)
	}
	h := kindtest.Lock(t, rlock.New(newClient(t, connect(), nil), name))
	require.Greater(t, h.Token(), last)
	require.NoError(t, h.Unlock(t.Context()))
}

// chainEnv makes the test binary a chain of goroutines until it is killed: "<address> <goroutines> <lease>". It prints tokens.
const chainEnv = "HOLDFAST_TEST_CHAIN"

const chainLock = "processes"

func handOn(job string) error {
	words := strings.Fields(job)
	goroutines, err := strconv.Atoi(words[1])
	if err != nil {
		return err
	}
	lease, err := time.ParseDuration(words[2])
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: words[0]})
	c, err := holdfast.New(rdb, &holdfast.Options{Lease: lease})
	if err != nil {
		return err
	}
	m := rlock.New(c, chainLock)
	errs := make(chan error, goroutines)
	for range goroutines {
		go func() {
			for {
				h, err := m.Lock(context.Background())
				if err == nil {
					fmt.Println(h.Token())
					err = h.Unlock(context.Background())
				}
				if err != nil && !errors.Is(err, holdfast.ErrLost) { // a machine that is too busy
					errs <- err
					return
				}
			}
		}()
	}
	return <-errs
}

// TestChainKilled: a process is killed in a hand-off. Another gets the lock at the lease's end, its token above all reserved.
func TestChainKilled(t *testing.T) {
	srv := redistest.Start(t)
	p := startProcess(t, chainEnv, srv.Addr(), 8, 2*time.Second)
	last := uint64(0)
	for range 500 {
		line := p.Says()
		token, err := strconv.ParseUint(line, 10, 64)
		require.NoError(t, err, line)
		require.Greater(t, token, last)
		last = token
	}
	require.NoError(t, p.Cmd.Process.Kill())
	for line := range p.Lines { // what it had printed
		if token, err := strconv.ParseUint(line, 10, 64); err == nil { // the last line may be a piece
			last = max(last, token)
		}
	}
	reserved, err := srv.Client(t).Get(t.Context(), "redisson_lock_token:{"+chainLock+"}").Uint64()
	require.NoError(t, err)
	require.GreaterOrEqual(t, reserved, last)
	h := kindtest.Lock(t, rlock.New(newClient(t, srv.Client(t), nil), chainLock), holdfast.Wait(patience))
	require.Greater(t, h.Token(), reserved)
	require.NoError(t, h.Unlock(t.Context()))
}
