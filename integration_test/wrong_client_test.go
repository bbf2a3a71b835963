package integration_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestClientOfOneNode: a client of one server is given a node of a cluster. Names that belong to
// another node fail at once, and the error says what to use.
func TestClientOfOneNode(t *testing.T) {
	level.ForAll(t)
	node := redistest.StartCluster(t, 2, 0).Nodes[0]
	c := newClient(t, node.Client(t), &holdfast.Options{RetryBudget: time.Hour}) // at once, or not in this test
	var failed error
	for i := 0; failed == nil; i++ {
		h, err := rlock.New(c, strconv.Itoa(i)).Lock(t.Context())
		if err == nil {
			err = h.Unlock(t.Context())
		}
		failed = errors.Join(failed, err)
	}
	require.ErrorContains(t, failed, "use redis.NewClusterClient")
	require.ErrorContains(t, failed, "MOVED")
}

// TestClientOfAReplica: the error says what to do.
func TestClientOfAReplica(t *testing.T) {
	level.ForAll(t)
	replica := redistest.StartReplicated(t, 1).Replicas()[0]
	c := newClient(t, replica.Client(t), &holdfast.Options{RetryBudget: 50 * time.Millisecond})
	_, err := rlock.New(c, "a").Lock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.ErrorContains(t, err, "this server is a replica now; if it stays one, connect to its primary")
}
