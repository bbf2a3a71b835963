package rlock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestClusterNodeHangs: one of three masters does not answer, and keeps nobody from the others.
func TestClusterNodeHangs(t *testing.T) {
	c := hangingCluster{redistest.StartCluster(t, 3, 0, redistest.Args("--cluster-require-full-coverage", "no"))}
	t.Run("close", func(t *testing.T) {
		require.Zero(t, c.leftElsewhere(t))
		defer defence.Lanes.Without(t)()
		require.NotZero(t, c.leftElsewhere(t), "control")
	})
	t.Run("renewals", func(t *testing.T) {
		level.ForAll(t)
		require.Zero(t, c.lostElsewhere(t))
		defer defence.Lanes.Without(t)()
		require.Equal(t, 2, c.lostElsewhere(t), "control")
	})
	t.Run("acquisitions", c.acquisitions)
}

// hangingCluster is one of which the first master hangs.
type hangingCluster struct{ *redistest.Cluster }

// client is one that waits so long for each answer.
func (c hangingCluster) client(t *testing.T, patience time.Duration) *redis.ClusterClient {
	return c.Client(t, func(o *redis.ClusterOptions) { o.ReadTimeout = patience })
}

// tags are parts of names for which each master is the one that has them.
func (c hangingCluster) tags(t *testing.T) (tags [3]string) {
	t.Helper()
	for i := 0; tags[0] == "" || tags[1] == "" || tags[2] == ""; i++ {
		tag := fmt.Sprintf("{%s:%d}", uniqueName(t), i)
		tags[slices.Index(c.Nodes, c.Master(t, tag))] = tag
	}
	return tags
}

// lostElsewhere is how many holds were lost of two, one on each of the others, until all had their
// time for that. No answer is given up in this time.
func (c hangingCluster) lostElsewhere(t *testing.T) (lost int) {
	const lease = 4 * time.Second
	client := newClient(t, c.client(t, 5*time.Minute), &holdfast.Options{Lease: lease})
	var holds [3]*holdfast.Hold
	for i, name := range c.tags(t) {
		var err error
		holds[i], err = rlock.New(client, name).Lock(t.Context())
		require.NoError(t, err)
	}
	c.Nodes[0].Pause()
	defer c.Nodes[0].Resume()
	require.ErrorIs(t, awaitEnd(t, holds[0]), holdfast.ErrLost)
	limit := time.Now().Add(2 * lease)
	for _, h := range holds[1:] {
		eventually(t, "renewed again and again, or lost",
			func() bool { return h.Context().Err() != nil || h.Deadline().After(limit) })
		if h.Context().Err() != nil {
			lost++
		}
	}
	return lost
}

// leftElsewhere is how many locks a client that is closed leaves on the others.
func (c hangingCluster) leftElsewhere(t *testing.T) (left int64) {
	client := newClient(t, c.client(t, 2*time.Second), nil)
	tags := c.tags(t)
	for i := range 250 { // in all more than one batch
		for _, tag := range tags {
			_ = lock(t, rlock.New(client, fmt.Sprint(tag, i)))
		}
	}
	c.Nodes[0].Pause()
	defer c.Nodes[0].Resume()
	require.ErrorIs(t, client.Close(t.Context()), holdfast.ErrUnavailable, "it says that locks are left")
	for _, node := range c.Nodes[1:] {
		left += int64(len(node.Command(t, "KEYS", "{"+t.Name()+"*").([]any)))
	}
	return left
}

// acquisitions: as many as a pool has connections, and more, wait for the one that hangs. Of the
// client only the map of slots is known: nothing else is asked of a server, which might be the one
// that hangs.
func (c hangingCluster) acquisitions(t *testing.T) {
	rdb := c.client(t, 5*time.Minute)
	client := newClient(t, rdb, nil)
	tags := c.tags(t)
	_, err := rdb.MasterForKey(t.Context(), tags[0])
	require.NoError(t, err)
	c.Nodes[0].Pause()
	defer c.Nodes[0].Resume()
	var waiting sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	defer waiting.Wait()
	defer leave()
	for i := range 5 * rdb.Options().PoolSize {
		waiting.Go(func() { _, _ = rlock.New(client, fmt.Sprint(tags[0], i)).Lock(ctx) })
	}
	for i := range 20 {
		for _, tag := range tags[1:] {
			unlock(t, lock(t, rlock.New(client, fmt.Sprint(tag, i)), holdfast.Wait(patience)))
		}
	}
	for _, node := range c.Nodes[1:] {
		require.Zero(t, node.CommandCalls(t)["command"], "any server may be asked for that, also one that hangs")
	}
}
