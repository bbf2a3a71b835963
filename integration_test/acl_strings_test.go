package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestRespectStringsNeedsNoPermission: the rule of docs/security.md is enough beside a lock that is a
// string. Without the right to GET the string is an error, as without the option, and is left alone.
func TestRespectStringsNeedsNoPermission(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rule, rdb, ctx := aclRule(srv, false), srv.Client(t), t.Context()
		m := rlock.New(newClient(t, as(t, srv, "limited", rule), nil), "orders:42", holdfast.RespectStrings())
		require.NoError(t, rdb.Set(ctx, "orders:42", "whose", 200*time.Millisecond).Err())
		h, err := m.Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))

		require.NoError(t, rdb.Set(ctx, "orders:42", "whose", time.Minute).Err())
		_, err = m.TryLock(ctx)
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		setUser(t, srv, "limited", without(rule, "+get"))
		_, err = m.TryLock(ctx)
		require.NotErrorIs(t, err, holdfast.ErrNotAcquired)
		require.ErrorContains(t, err, "WRONGTYPE")
		require.Equal(t, "whose", rdb.Get(ctx, "orders:42").Val())
	})
}
