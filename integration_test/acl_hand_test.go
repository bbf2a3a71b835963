package integration_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestHandOffWithTheRule: the rule is enough for a lock that is handed on within a client, and
// without the permission to count listeners it works too.
func TestHandOffWithTheRule(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		counts := func(object string) bool { return strings.HasPrefix(object, "pubsub") }
		rule := aclRule(srv, false)
		crowd(t, as(t, srv, "limited", rule), "orders:42")
		require.Empty(t, refused(t, srv))
		require.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(srv.CommandCalls(t))), counts),
			"the server was asked who listens")

		crowd(t, as(t, srv, "less", without(rule, "+pubsub|numsub")), "orders:42")
		require.True(t, slices.ContainsFunc(refused(t, srv), counts), "control: that was refused")
	})
}

// crowd is some goroutines of one client who want the same lock, often enough to use up more than
// one block of tokens.
func crowd(t *testing.T, rdb redis.UniversalClient, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m := rlock.New(newClient(t, rdb, nil), name)
	var group sync.WaitGroup
	var last uint64 // guarded by the lock
	for range 8 {
		group.Go(func() {
			for range 100 {
				h, err := m.Lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if last >= h.Token() {
					t.Errorf("token %d after %d", h.Token(), last)
				}
				last = h.Token()
				if err := h.Unlock(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}
