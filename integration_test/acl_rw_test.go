package integration_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rwlock"
)

// TestReadWriteLeastPrivilege: with exactly its rule a read-write lock has its whole life, and
// readers and writers wait for each other.
func TestReadWriteLeastPrivilege(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rule := strings.Join([]string{aclScripts, aclReadWrite, "~orders:* ~redisson_lock_token:{orders:*", aclSingle}, " ")
		if srv.Major() >= 7 {
			rule += " " + aclReadWriteChannels
		}
		rdb := as(t, srv, "limited", rule)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		one, two := rwlock.New(newClient(t, rdb, nil), "orders:42"), rwlock.New(newClient(t, rdb, nil), "orders:42")
		take := func(lock func(context.Context, ...holdfast.Option) (*holdfast.Hold, error)) chan *holdfast.Hold {
			got := make(chan *holdfast.Hold, 1)
			go func() {
				h, err := lock(ctx)
				if err == nil {
					err = h.Extend(ctx, time.Hour)
				}
				require.NoError(t, err) //nolint:testifylint // the test's deadline ends what waits
				got <- h
			}()
			return got
		}
		h := <-take(one.RLock)
		writer := take(two.Lock)
		eventually(ctx, t, "the writer waits", func() bool { return state(t, one).Waiters == 1 })
		require.NoError(t, h.Unlock(ctx))
		w := <-writer
		inner, err := two.RLock(w.Context())
		require.NoError(t, err)
		reader := take(one.RLock)
		require.NoError(t, inner.Unlock(ctx))
		require.NoError(t, w.Unlock(ctx))
		<-reader
		forced, err := two.ForceUnlock(ctx)
		require.NoError(t, err)
		require.True(t, forced)
		require.Empty(t, refused(t, srv))
	})
}

func state(t *testing.T, m *rwlock.RWMutex) rwlock.State {
	t.Helper()
	s, err := m.State(t.Context())
	require.NoError(t, err)
	return s
}
