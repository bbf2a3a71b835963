package multilock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestCluster: members in several slots of a cluster, and in one slot, are one lock like any other.
func TestCluster(t *testing.T) {
	level.ForAll(t)
	cluster := redistest.StartCluster(t, 3, 0)
	direct := cluster.Client(t)
	c, other := newClient(t, cluster.Client(t), nil), newClient(t, cluster.Client(t), nil)
	ctx := t.Context()
	for what, pattern := range map[string]string{"many slots": "m:%d", "one slot": "{one}:%d"} {
		var n []string
		for i := range 6 {
			n = append(n, fmt.Sprintf(pattern, i))
		}
		m := multilock.New(plain(c, n[3], n[5], n[0], n[1], n[4], n[2])...)
		h := lock(ctx, t, m)
		require.Equal(t, n, taken(t, direct, n...), what)
		_, err := multilock.New(plain(other, n[2], n[3])...).TryLock(ctx)
		require.ErrorIs(t, err, holdfast.ErrNotAcquired, what)
		waiting := begin(ctx, t, multilock.New(plain(other, n...)...).Lock)
		unlock(t, h)
		next := waiting.Hold()
		require.Greater(t, next.Token(), h.Token(), what)
		_, err = m.Lock(ctx, holdfast.Wait(20*time.Millisecond))
		require.ErrorIs(t, err, holdfast.ErrNotAcquired, what)
		unlock(t, next)
		middle := lock(ctx, t, rlock.New(other, n[3]))
		_, err = m.TryLock(ctx)
		require.ErrorIs(t, err, holdfast.ErrNotAcquired, what)
		require.Equal(t, n[3:4], taken(t, direct, n...), what)
		unlock(t, middle)
	}
}
