package rlock_test

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// asks are operations that change something, each with the answer to whether that may have
// happened.
func asks(t *testing.T, rdb *redis.Client) map[string]error {
	t.Helper()
	m := rlock.New(newClient(t, rdb, &holdfast.Options{RetryBudget: 300 * time.Millisecond}), uniqueName(t))
	_, lock := m.Lock(t.Context())
	_, try := m.TryLock(t.Context())
	_, force := m.ForceUnlock(t.Context())
	return map[string]error{"lock": lock, "try": try, "force unlock": force}
}

// TestRefusedConnectionIsNotUncertain: what was never written to a connection has not happened,
// also if the budget is over in the middle of go-redis's attempts to make one.
func TestRefusedConnectionIsNotUncertain(t *testing.T) {
	t.Parallel()
	refusedDials(t)
	over := make(chan struct{})
	var dials atomic.Int64
	rdb := redis.NewClient(&redis.Options{
		DialerRetries: 2, DialerRetryTimeout: time.Millisecond, ReadTimeout: 100 * time.Millisecond,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			if dials.Add(1) > 1 {
				<-over // the budget is over meanwhile
			}
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		},
	})
	t.Cleanup(func() { close(over); _ = rdb.Close() })
	for op, err := range asks(t, rdb) {
		require.ErrorIs(t, err, holdfast.ErrUnavailable, op)
		require.ErrorContains(t, err, "no answer within Options.RetryBudget", op)
		require.NotErrorIs(t, err, holdfast.ErrUncertain, op)
	}
}

// The control: what was written may have happened.
func TestLostReplyIsUncertain(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxy := faultproxy.New(t, srv.Addr())
	proxy.On(faultproxy.Script(lua.Acquire.Hash()), 0, faultproxy.DropReply)
	rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = 50 * time.Millisecond })
	require.NoError(t, rdb.ScriptLoad(t.Context(), lua.Acquire.Text()).Err())
	errs := asks(t, rdb)
	for _, op := range []string{"lock", "try"} {
		require.ErrorIs(t, errs[op], holdfast.ErrUnavailable, op)
		require.ErrorIs(t, errs[op], holdfast.ErrUncertain, op)
	}
}

// TestUnlockBehindAnother: an Unlock that does not get its turn, because another operation of its
// owner has no answer, says that there is an outage, as that one does.
func TestUnlockBehindAnother(t *testing.T) {
	p := newProxied(t, &holdfast.Options{RetryBudget: 100 * time.Millisecond})
	outer := lock(t, p.mutex)
	inner := take(outer.Context(), t, p.mutex.Lock)
	p.proxy.Silence(true)
	for what, err := range map[string]error{"inner": inner.Unlock(t.Context()), "outer": outer.Unlock(t.Context())} {
		require.ErrorIs(t, err, holdfast.ErrUnavailable, what)
		require.ErrorIs(t, err, holdfast.ErrUncertain, what)
		if what == "outer" {
			require.ErrorContains(t, err, "another operation of the same owner")
		}
	}
	p.proxy.Silence(false)
	eventually(t, "it is given back", func() bool { return p.direct.Exists(t.Context(), p.mutex.Name()).Val() == 0 })
}
