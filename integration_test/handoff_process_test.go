package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// chainEnv makes the test binary a process whose goroutines hand a lock on among each other until
// it is killed: "<address> <goroutines> <lease>". It prints each token while it holds the lock.
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

// TestChainKilled: a process is killed while its goroutines hand the lock on. Another one gets it
// when the lease has ended, with a token greater than all that the dead one had, or had reserved.
func TestChainKilled(t *testing.T) {
	srv := redistest.Start(t)
	cmd, _, lines := startProcess(t, chainEnv, srv.Addr(), 8, 2*time.Second)
	last := uint64(0)
	for range 500 {
		require.True(t, lines.Scan(), "the process ended")
		token, err := strconv.ParseUint(lines.Text(), 10, 64)
		require.NoError(t, err, lines.Text())
		require.Greater(t, token, last)
		last = token
	}
	require.NoError(t, cmd.Process.Kill())
	for lines.Scan() { // what it had printed
		if token, err := strconv.ParseUint(lines.Text(), 10, 64); err == nil { // the last line may be a piece
			last = max(last, token)
		}
	}
	reserved, err := srv.Client(t).Get(t.Context(), "redisson_lock_token:{"+chainLock+"}").Uint64()
	require.NoError(t, err)
	require.GreaterOrEqual(t, reserved, last)
	h, err := rlock.New(newClient(t, srv.Client(t), nil), chainLock).Lock(t.Context(), holdfast.Wait(patience))
	require.NoError(t, err)
	require.Greater(t, h.Token(), reserved)
	require.NoError(t, h.Unlock(t.Context()))
}

// TestShares: eight processes with four goroutines each want one lock always. Each gets at least
// half of what would be fair. A turn of one of them is a few hundred grants, so many are counted.
// No token is granted twice. Shares are chance, so this is for soak: if 400 turns of 250 grants were
// drawn at random, one run of ten thousand would fail. What decides them, that clients take turns and
// let each other go first, is shown without chance by TestTurns of the simulation.
func TestShares(t *testing.T) {
	level.ForSoak(t)
	const processes, grants = 8, 100_000
	srv := redistest.Start(t)
	type grant struct {
		process int
		token   uint64
	}
	all := make(chan grant, 1000)
	var group sync.WaitGroup
	var cmds []*exec.Cmd
	for i := range processes {
		cmd, _, lines := startProcess(t, chainEnv, srv.Addr(), 4, 10*time.Second)
		cmds = append(cmds, cmd)
		group.Go(func() {
			for lines.Scan() {
				token, err := strconv.ParseUint(lines.Text(), 10, 64)
				if err != nil {
					continue // the last line of one that is killed may be a piece
				}
				all <- grant{i, token}
			}
		})
	}
	defer group.Wait()
	defer func() { // the readers end when nobody writes, and what they have read is taken
		for _, cmd := range cmds {
			_ = cmd.Process.Kill()
		}
		go func() {
			group.Wait()
			close(all)
		}()
		for range all {
		}
	}()
	var shares [processes]int
	seen := make(map[uint64]bool)
	started := make(map[int]bool)
	limit := time.After(6 * patience) // for a machine that does nothing but this it is seconds
	for counted := 0; counted < grants; {
		select {
		case g := <-all:
			require.False(t, seen[g.token], "granted twice")
			seen[g.token], started[g.process] = true, true
			if len(started) == processes { // before that they have the lock for themselves
				shares[g.process]++
				counted++
			}
		case <-limit:
			t.Fatalf("not in time: %v, started: %v", shares, started)
		}
	}
	t.Logf("shares of %d grants: %v", grants, shares)
	for _, n := range shares {
		require.GreaterOrEqual(t, n, grants/processes/2, "%v", shares)
	}
}
