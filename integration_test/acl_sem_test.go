package integration_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/semaphore"
)

// TestSemaphoreLeastPrivilege: with exactly its rule a semaphore has its whole life: permits are taken,
// waited for, handed out, renewed, and taken back when a claim or a lease has ended.
func TestSemaphoreLeastPrivilege(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rule := strings.Join([]string{aclSemaphore, aclSingle}, " ")
		if srv.Major() >= 7 {
			rule += " " + aclSemaphoreChannels
		}
		rdb := as(t, srv, "limited", rule)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		one, two := semaphore.New(newClient(t, rdb, nil), "orders:42", 3), semaphore.New(newClient(t, rdb, nil), "orders:42", 3)
		h, err := one.Acquire(ctx, 2)
		require.NoError(t, err)
		require.NoError(t, h.Extend(ctx, time.Hour))
		dies, err := two.Lock(ctx, holdfast.NoRenewal(), holdfast.Lease(time.Second))
		require.NoError(t, err)
		got := make(chan error, 2)
		for range 2 {
			go func() {
				h, err := two.Acquire(ctx, 2)
				if err == nil {
					err = h.Unlock(ctx)
				}
				got <- err
			}()
		}
		eventually(ctx, t, "both wait", func() bool {
			s, err := one.State(ctx)
			require.NoError(t, err)
			return s.Waiters == 2
		})
		require.NoError(t, h.Unlock(ctx))
		require.NoError(t, <-got)
		require.NoError(t, <-got)
		<-dies.Context().Done()
		require.ErrorIs(t, dies.Unlock(ctx), holdfast.ErrLost)
		require.NoError(t, one.SetPermits(ctx, 5))
		// A client that does not take what it is handed.
		require.NoError(t, rdb.ZAdd(ctx, "holdfast_semaphore_places:{orders:42}", redis.Z{Member: "8743c9c0-0795-4907-87fd-6c719a6b4586:h1", Score: -1}).Err())
		require.NoError(t, rdb.ZAdd(ctx, "{orders:42}:timeout", redis.Z{Member: "8743c9c0-0795-4907-87fd-6c719a6b4586:h1", Score: 1}).Err())
		h, err = one.Acquire(ctx, 6)
		require.NoError(t, err, "with that one")
		require.NoError(t, h.Unlock(ctx))
		require.Empty(t, refused(t, srv))
	})
}
