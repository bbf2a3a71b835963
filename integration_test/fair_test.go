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
	// fairEnv makes the test binary a process whose goroutines lock again and again: "<address>
	// <goroutines>".
	fairEnv  = "HOLDFAST_TEST_FAIR"
	fairLock = "fair"
	// fairNext has an element for each goroutine that may go on; fairOrder is who was granted the
	// lock, in that order.
	fairNext, fairOrder = "fair:next", "fair:order"
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
		h, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		if err := rdb.RPush(ctx, fairOrder, h.Owner()).Err(); err != nil {
			return err
		}
		return h.Unlock(ctx)
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
func fairQueue(t *testing.T, rdb *redis.Client) []string {
	list, err := rdb.LRange(t.Context(), "redisson_lock_queue:{"+fairLock+"}", 0, -1).Result()
	require.NoError(t, err)
	return list
}

func fairGo(t *testing.T, rdb *redis.Client, n int) {
	require.NoError(t, rdb.RPush(t.Context(), fairNext, make([]any, n)...).Err())
}

// TestFairOverProcesses: 32 waiters in four processes are granted the lock in the order in which
// they came to the server, a hundred times.
func TestFairOverProcesses(t *testing.T) {
	level.ForAll(t)
	const processes, goroutines, rounds = 4, 8, 100
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	for range processes {
		startProcess(t, fairEnv, srv.Addr(), goroutines)
	}
	m := fairlock.New(newClient(t, rdb, nil), fairLock)
	mixed := false // a round in which the processes took turns, so that it is the server's order and not a process's
	for range rounds {
		h := kindtest.Lock(t, m, holdfast.Wait(patience))
		fairGo(t, rdb, processes*goroutines)
		require.Eventually(t, func() bool { return len(fairQueue(t, rdb)) == processes*goroutines }, patience,
			time.Millisecond)
		want := fairQueue(t, rdb)
		require.NoError(t, h.Unlock(t.Context()))
		require.Eventually(t, func() bool { return rdb.LLen(t.Context(), fairOrder).Val() == processes*goroutines },
			patience, time.Millisecond)
		got, err := rdb.LRange(t.Context(), fairOrder, 0, -1).Result()
		require.NoError(t, err)
		require.Equal(t, want, inRuns(want, got))
		require.NoError(t, rdb.Del(t.Context(), fairOrder).Err())
		mixed = mixed || uuidOf(got[0]) != uuidOf(got[1]) && uuidOf(got[1]) != uuidOf(got[2])
	}
	require.True(t, mixed)
	require.Eventually(t, func() bool { return len(fairQueue(t, rdb)) == 0 }, patience, time.Millisecond,
		"the last one's release takes the places of all who were served in its run")
}

// inRuns replaces the owners of holds by those of places where a process was granted the lock in a
// run: there all holds have the owner of the first.
func inRuns(places, holds []string) []string {
	places, holds = slices.Clone(places), slices.Clone(holds)
	for i := len(holds) - 1; i > 0; i-- {
		if i < len(places) && holds[i] == holds[i-1] && uuidOf(holds[i]) == uuidOf(places[i]) {
			holds[i] = places[i]
		}
	}
	return holds
}

func uuidOf(owner string) string { return owner[:strings.LastIndexByte(owner, ':')] }

// TestFairWaitersKilled: eight waiters of a process that is killed stand in front of a live one.
// The unlock itself hands the lock to that one. Control: a release that does not look whether
// anybody listens hands it to a dead one.
func TestFairWaitersKilled(t *testing.T) {
	const dead = 8
	unlock := func(t *testing.T, hook redis.Hook) (first, next, handed string) {
		srv := redistest.Start(t)
		rdb := srv.Client(t)
		if hook != nil {
			rdb.AddHook(hook)
		}
		cmd, _, _ := startProcess(t, fairEnv, srv.Addr(), dead)
		m := fairlock.New(newClient(t, rdb, nil), fairLock)
		h := kindtest.Lock(t, m)
		fairGo(t, rdb, dead)
		require.Eventually(t, func() bool { return len(fairQueue(t, rdb)) == dead }, patience, time.Millisecond)
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
		require.Eventually(t, func() bool { return len(fairQueue(t, rdb)) == dead+1 }, patience, time.Millisecond)
		queue := fairQueue(t, rdb)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		mailbox := "redisson_lock__channel:{" + fairLock + "}:" + uuidOf(queue[0])
		require.Eventually(t, func() bool { return rdb.PubSubNumSub(t.Context(), mailbox).Val()[mailbox] == 0 },
			patience, time.Millisecond)
		require.NoError(t, h.Unlock(t.Context()))
		s := kindtest.State(t, m)
		return queue[0], queue[dead], s.Owner
	}
	_, live, owner := unlock(t, nil)
	require.Equal(t, live, owner)
	first, _, owner := unlock(t, mutant.Hook(lua.FairRelease, "if deaf[id] then return nil end", ""))
	require.Equal(t, first, owner, "control")
}
