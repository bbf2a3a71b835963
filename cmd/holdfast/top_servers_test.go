package main

import (
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
