package fairlock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestClusterNodeHangs: a client waits at two masters, of which one does not answer. It looks after
// its place at the other one.
func TestClusterNodeHangs(t *testing.T) {
	level.ForAll(t)
	c := redistest.StartCluster(t, 3, 0, redistest.Args("--cluster-require-full-coverage", "no"))
	require.True(t, grantedElsewhere(t, c, patience))
	defer defence.Lanes.Without(t)()
	require.False(t, grantedElsewhere(t, c, 3*time.Second), "the fault is none")
}

// grantedElsewhere reports whether a lock that is deleted without a word is found by its waiter
// while another master hangs. No answer is given up in this time.
func grantedElsewhere(t *testing.T, c *redistest.Cluster, within time.Duration) bool {
	t.Helper()
	rdb := c.Client(t, func(o *redis.ClusterOptions) { o.ReadTimeout = 5 * time.Minute })
	client, other := newClient(t, rdb, nil), newClient(t, c.Client(t), nil)
	var names [2]string
	for i := 0; names[0] == "" || names[1] == ""; i++ {
		name := fmt.Sprint(uniqueName(t), ":", i)
		if master := slices.Index(c.Nodes, c.Master(t, name)); master < len(names) {
			names[master] = name
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	var granted [2]chan struct{}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer leave()
	for i, name := range names {
		_ = lock(t, fairlock.New(other, name))
		granted[i] = make(chan struct{})
		waiting.Go(func() {
			if h, err := fairlock.New(client, name).Lock(ctx); err == nil {
				close(granted[i])
				_ = h.Unlock(ctx)
			}
		})
		eventually(t, "it has a place", func() bool { return len(queued(t, rdb, name)) == 1 })
	}
	c.Nodes[0].Pause()
	defer c.Nodes[0].Resume()
	hanging, err := rdb.MasterForKey(t.Context(), names[0])
	require.NoError(t, err)
	eventually(t, "a poll is under way at the one that hangs", func() bool {
		stats := hanging.PoolStats()
		return stats.TotalConns > stats.IdleConns
	})
	c.Nodes[1].Command(t, "DEL", names[1])
	select {
	case <-granted[1]:
		return true
	case <-time.After(within):
		return false
	}
}
