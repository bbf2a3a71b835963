package rlock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// closedWhileUnlocking closes a client while the network keeps the release of an Unlock: until
// Close has begun, or until it has returned. It reports whether the lock is free when Close has
// returned.
func closedWhileUnlocking(t *testing.T, returned bool) bool {
	t.Helper()
	srv := redistest.Start(t)
	proxy, direct := faultproxy.New(t, srv.Addr()), srv.Client(t)
	rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = patience })
	c := newClient(t, rdb, nil)
	m := rlock.New(c, "a")
	h := lock(t, m)
	kept := proxy.DelayRequest(script(lua.Release), 1, time.Hour)
	unlocked, closed := make(chan error, 1), make(chan error, 1)
	go func() { unlocked <- h.Unlock(t.Context()) }()
	<-kept.Fired()
	go func() { closed <- c.Close(t.Context()) }()
	eventually(t, "Close has begun", func() bool {
		_, err := m.State(t.Context())
		return err != nil
	})
	if !returned {
		kept.Release()
	}
	require.NoError(t, <-closed)
	left := free(t, direct, "a")
	kept.Release()
	require.NoError(t, <-unlocked)
	return left
}

// TestCloseWaitsForUnlock: a lock that is being released when its client is closed is free when
// Close returns. Nobody could release it any more where the client of go-redis is closed next.
func TestCloseWaitsForUnlock(t *testing.T) {
	require.True(t, closedWhileUnlocking(t, false))

	// The control: without that it is taken still.
	t.Cleanup(defence.Unlocks.Without(t))
	require.False(t, closedWhileUnlocking(t, true))
}
