package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestPendingPermissions says what is not good yet when a permission is missing, and fails as soon as it is.
func TestPendingPermissions(t *testing.T) {
	srv := redistest.Start(t)
	rule := aclRule(srv, false)
	rdb := as(t, srv, "limited", rule)
	m := rlock.New(newClient(t, rdb, nil), "orders:42")

	// The watchdog is refused, and the loss does not say so.
	h, err := m.Lock(t.Context(), holdfast.Lease(300*time.Millisecond))
	require.NoError(t, err)
	setUser(t, srv, "limited", without(rule, "+hexists"))
	<-h.Context().Done()
	require.False(t, aboutPermissions(h.Unlock(t.Context())), "the reason is told: demand it in subject.expect")
	setUser(t, srv, "limited", rule)
	require.NoError(t, srv.Client(t).FlushAll(t.Context()).Err())

	// PEXPIRE is refused after the HSET: a lock of nobody, for ever.
	setUser(t, srv, "limited", without(rule, "+pexpire"))
	_, err = m.Lock(t.Context())
	require.Error(t, err)
	left, err := look(t.Context(), srv.Client(t))
	require.NoError(t, err)
	require.ErrorContains(t, left.withTTL(), "orders:42 has no time to live", "acquire.lua undoes itself: see leavesTheLock")
}

// TestPendingWrongTypeOfTheToken: the error speaks of the lock's key, and it is the token's that holds something else.
func TestPendingWrongTypeOfTheToken(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	m := rlock.New(newClient(t, rdb, nil), scriptLock)
	require.NoError(t, prepare(t.Context(), rdb, "RPUSH TOKEN x; PEXPIRE TOKEN 20000"))
	_, err := m.Lock(t.Context())
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NotContains(t, err.Error(), scriptToken, "it is named now: demand it in TestWrongTypeNamesTheLock")
}
