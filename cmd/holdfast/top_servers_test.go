package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// connected is what the command makes of an address.
func connected(t *testing.T, address string) redis.UniversalClient {
	t.Helper()
	rdb, err := connect(address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// TestTopOnCluster: the locks of all masters are there, and one that is taken later.
func TestTopOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	c := newTestClient(t, cluster.Client(t))
	names := map[string]string{} // by the master
	take := func(name string) {
		_, err := rlock.New(c, name).TryLock(t.Context())
		require.NoError(t, err)
	}
	for n := 0; len(names) < 3; n++ {
		name := fmt.Sprint("place", n)
		if at := cluster.Master(t, name).Addr(); names[at] == "" {
			names[at] = name
			take(name)
		}
	}
	address := "redis+cluster://" + strings.Join(cluster.Addrs(), ",")
	w := watchingAt(t, address, connected(t, address), nil)
	for _, name := range names {
		w.shows(name)
	}
	take("later")
	w.shows("later")
}

// TestTopOnSentinel: after a fail-over it shows what there is at the new master, which another one takes there.
func TestTopOnSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	c, ctx := newTestClient(t, s.Client(t)), t.Context()
	_, err := rlock.New(c, "before").TryLock(ctx)
	require.NoError(t, err)
	address := "redis+sentinel://" + strings.Join(s.Addrs(), ",") + "/" + redistest.SentinelMaster
	w := watchingAt(t, address, connected(t, address), nil)
	w.shows("before")
	_, err = rlock.New(newTestClient(t, s.Failover(t).Client(t)), "after").TryLock(ctx)
	require.NoError(t, err)
	w.shows("after")
}
