package fairlock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// TestWhoHasItNow: a waiter that leaves is told who had the lock when its client looked last, and
// not who had it when it came.
func TestWhoHasItNow(t *testing.T) {
	const later = "3f0c2a4e-0c67-4f0e-9a52-6d9d6f1a7b11:7"
	srv := redistest.Start(t)
	rdb, proxy := srv.Client(t), faultproxy.New(t, srv.Addr())
	m := fairlock.New(newClient(t, redistest.NewClient(t, proxy.Addr()), nil), "a")
	require.NoError(t, rdb.Eval(t.Context(), "redis.call('HSET', KEYS[1], ARGV[1], 1); return redis.call('PEXPIRE', KEYS[1], 60000)",
		[]string{"a"}, "3f0c2a4e-0c67-4f0e-9a52-6d9d6f1a7b11:6").Err())
	ctx, cancel := context.WithCancel(t.Context())
	left := begin(ctx, t, m.Lock)
	eventually(t, "it waits", func() bool { return len(queued(t, rdb, "a")) == 1 })
	require.NoError(t, rdb.Eval(t.Context(), "redis.call('DEL', KEYS[1]); redis.call('HSET', KEYS[1], ARGV[1], 1); return redis.call('PEXPIRE', KEYS[1], 60000)",
		[]string{"a"}, later).Err())
	polls := func() int { return proxy.Seen(faultproxy.Script(lua.FairPoll.Hash())) }
	before := polls()
	eventually(t, "its client has looked, and has had the answer to the first of these",
		func() bool { return polls() >= before+3 })
	cancel()
	err := left.Err()
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "held by "+later+", whose lease ha")
}
