package fence_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestNobodyIsRefusedInVain: holders who come one after another, within a process and between two
// clients, all get past the guard, also when the lock is handed on with tokens that were reserved
// before.
func TestNobodyIsRefusedInVain(t *testing.T) {
	for kind, lock := range map[string]func(*holdfast.Client, string) holdfast.Locker{
		"rlock":    func(c *holdfast.Client, name string) holdfast.Locker { return rlock.New(c, name) },
		"fairlock": func(c *holdfast.Client, name string) holdfast.Locker { return fairlock.New(c, name) },
	} {
		t.Run(kind, func(t *testing.T) {
			const clients, goroutines, rounds = 2, 8, 20
			rdb := redistest.Shared(t).Client(t)
			guard, key := fence.NewRedis(rdb), t.Name()+":count"
			require.NoError(t, rdb.Del(t.Context(), key).Err())
			var all sync.WaitGroup
			for range clients {
				l := lock(newClient(t), t.Name())
				for range goroutines {
					all.Go(func() {
						for range rounds {
							err := holdfast.Do(t.Context(), l, func(ctx context.Context) error {
								_, err := guard.Do(ctx, key, "INCR")
								return err
							})
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			all.Wait()
			n, err := rdb.Get(t.Context(), key).Int()
			require.NoError(t, err)
			require.Equal(t, clients*goroutines*rounds, n)
		})
	}
}

// TestEndedHoldSaysWhy: a write under the context of a hold that has ended is not sent, and the
// error has the reason.
func TestEndedHoldSaysWhy(t *testing.T) {
	m := rlock.New(newClient(t), t.Name())
	rdb := redistest.Shared(t).Client(t)
	released := lock(t, m, t.Context())
	require.NoError(t, released.Unlock(t.Context()))
	lost := lock(t, m, t.Context())
	_, err := m.ForceUnlock(t.Context())
	require.NoError(t, err)
	<-lost.Context().Done()
	for reason, h := range map[error]*holdfast.Hold{holdfast.ErrReleased: released, holdfast.ErrLost: lost} {
		_, err := fence.NewRedis(rdb).Do(h.Context(), t.Name()+":store", "SET", 1)
		require.ErrorIs(t, err, reason)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, fence.ErrStale)
	}
	require.Zero(t, rdb.Exists(t.Context(), t.Name()+":store").Val())
}

// TestLostReplyIsNotRepeated: the command may have run, so nobody but the caller may send it again.
func TestLostReplyIsNotRepeated(t *testing.T) {
	srv := redistest.Start(t)
	direct := srv.Client(t)
	rdb, proxy := kindtest.Behind(t, srv.Addr(), 200*time.Millisecond)
	guard := fence.NewRedis(rdb)
	incr := func(key string) error {
		_, err := guard.DoToken(t.Context(), 12, key, "INCR")
		return err
	}
	require.NoError(t, incr("known")) // the server knows the script from here on
	for _, fault := range []faultproxy.Action{faultproxy.DropReply, faultproxy.Cut} {
		t.Run(fault.String(), func(t *testing.T) {
			rule := proxy.On(kindtest.Script(lua.Fence), 1, fault)
			err := incr(fault.String())
			require.Equal(t, 1, rule.Count())
			require.Error(t, err)
			var said redis.Error
			require.False(t, errors.As(err, &said), "the server has said nothing: %v", err)
			n, _ := direct.Get(t.Context(), fault.String()).Int()
			require.LessOrEqual(t, n, 1)
		})
	}
	require.Equal(t, "1", direct.Get(t.Context(), faultproxy.DropReply.String()).Val(), "and it had run")

	// The control: go-redis's own repeats, and it runs twice.
	defer defence.NoRetry.Without(t)()
	proxy.On(kindtest.Script(lua.Fence), 1, faultproxy.DropReply)
	require.NoError(t, incr("control"))
	require.Equal(t, "2", direct.Get(t.Context(), "control").Val())
}
