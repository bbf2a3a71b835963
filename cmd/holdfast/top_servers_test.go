package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestTopOnSentinel: after a fail-over it shows what there is at the new master, which another one takes there.
func TestTopOnSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	c := kindtest.NewClient(t, s.Client(t), nil)
	kindtest.Lock(t, rlock.New(c, "before"))
	address := "redis+sentinel://" + strings.Join(s.Addrs(), ",") + "/" + redistest.SentinelMaster
	rdb, err := connect(address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	w := watchingAt(t, address, rdb, nil)
	w.shows("before")
	kindtest.Lock(t, rlock.New(kindtest.NewClient(t, s.Failover(t).Client(t), nil), "after"))
	w.shows("after")
}
