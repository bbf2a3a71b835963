package integration_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
)

// latchLife sets a latch, has two clients wait, and opens it, once by the last count-down and once by
// taking it away.
func latchLife(t *testing.T, connect func() redis.UniversalClient, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	one, two := latch.New(newClient(t, connect(), nil), name), latch.New(newClient(t, connect(), nil), name)
	for _, end := range []func() error{
		func() error { _, err := two.CountDown(ctx); return err },
		func() error { _, err := two.Delete(ctx); return err },
	} {
		ok, err := one.Set(ctx, 2)
		require.NoError(t, err)
		require.True(t, ok)
		waits := make(chan error, 2)
		for _, l := range []*latch.Latch{one, two} {
			go func() { waits <- l.Wait(ctx) }()
		}
		left, err := one.CountDown(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, left)
		require.Empty(t, waits)
		require.NoError(t, end())
		require.NoError(t, <-waits)
		require.NoError(t, <-waits)
		left, err = one.Count(ctx)
		require.NoError(t, err)
		require.Zero(t, left)
	}
}

// TestLatchLife: on every topology and version, also with a hash tag of its own.
func TestLatchLife(t *testing.T) {
	topology.Each(t, topology.All, func(t *testing.T, top topology.Topology) {
		for _, name := range []string{"latch:42", "{latch}:43", "x"} {
			latchLife(t, func() redis.UniversalClient { return top.Connect(t) }, name)
		}
	})
}

// TestLatchLeastPrivilege: with exactly its rule a latch has its whole life.
func TestLatchLeastPrivilege(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rule := aclLatch + " " + aclSingle
		if srv.Major() < 7 {
			rule = strings.ReplaceAll(rule, "&redisson_countdownlatch__channel__{orders:*", "")
		}
		rdb := as(t, srv, "limited", rule)
		latchLife(t, func() redis.UniversalClient { return rdb }, "orders:42")
		require.Empty(t, refused(t, srv))
		require.ErrorContains(t, rdb.Get(t.Context(), "other").Err(), "NOPERM", "control: the user is a limited one")
	})
}
