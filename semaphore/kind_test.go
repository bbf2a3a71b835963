package semaphore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/semaphore"
)

// TestKind: what every kind of lock promises. A semaphore of one permit is one.
func TestKind(t *testing.T) {
	srv := redistest.Start(t)
	direct := srv.Client(t)
	kindtest.Run(t, kindtest.Kind{
		Name:  "semaphore",
		Lease: 2 * time.Second,
		Once:  true,
		Client: func(t *testing.T, opts *holdfast.Options) kindtest.Client {
			c := newClient(t, srv.Client(t), opts)
			return kindtest.Client{
				ID: c.ID(),
				New: func(name string, opts ...holdfast.Option) holdfast.Locker {
					return semaphore.New(c, name, 1, opts...)
				},
				State: func(ctx context.Context, name string) (holdfast.State, error) {
					s, err := semaphore.New(c, name, 1).State(ctx)
					state := holdfast.State{Waiters: s.Waiters, Token: tokenOf(t, direct, name)}
					for _, h := range s.Holders {
						state.Owner, state.Count, state.Remaining = h.Owner, h.Count, h.Remaining
					}
					return state, err
				},
				Close: c.Close,
			}
		},
		Waiters: func(t *testing.T, name string) int {
			n, err := direct.ZCard(t.Context(), "holdfast_semaphore_queue:{"+name+"}").Result()
			require.NoError(t, err)
			return int(n)
		},
		Lose: func(t *testing.T, name string) {
			ends := "{" + name + "}:timeout"
			require.NoError(t, direct.Del(t.Context(), ends).Err())
			require.NoError(t, direct.Set(t.Context(), name, 0, time.Hour).Err())
			require.NoError(t, direct.ZAdd(t.Context(), ends, redis.Z{
				Member: "110cc421-94e6-4f2e-9a4b-2f6b5d8a7c11:h47", Score: float64(time.Now().Add(time.Hour).UnixMilli()),
			}).Err())
		},
		Sent: func(t *testing.T) int64 {
			calls := srv.CommandCalls(t)
			return calls["eval"] + calls["evalsha"] + calls["subscribe"]
		},
	})
}

// tokenOf is the token that was granted last.
func tokenOf(t *testing.T, rdb *redis.Client, name string) uint64 {
	token, err := rdb.Get(t.Context(), "redisson_lock_token:{"+name+"}").Uint64()
	if !errors.Is(err, redis.Nil) {
		require.NoError(t, err)
	}
	return token
}
