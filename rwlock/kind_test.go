package rwlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rwlock"
)

// TestKind: what every kind of lock promises. A read-write lock is one by its side to write.
func TestKind(t *testing.T) {
	srv := redistest.Start(t)
	direct := srv.Client(t)
	kindtest.Run(t, kindtest.Kind{
		Name:  "rwlock",
		Lease: 2 * time.Second,
		Client: func(t *testing.T, opts *holdfast.Options) kindtest.Client {
			c := newClient(t, srv.Client(t), opts)
			return kindtest.Client{
				ID: c.ID(),
				New: func(name string, opts ...holdfast.Option) holdfast.Locker {
					return rwlock.New(c, name, opts...)
				},
				State: func(ctx context.Context, name string) (holdfast.State, error) {
					s, err := rwlock.New(c, name).State(ctx)
					state := holdfast.State{Token: s.Token, Waiters: s.Waiters}
					for _, h := range s.Holders {
						state.Owner, state.Count, state.Remaining = h.Owner, h.Count, h.Remaining
					}
					return state, err
				},
				Close: c.Close,
			}
		},
		Waiters: func(t *testing.T, name string) int {
			n, err := direct.ZCard(t.Context(), "holdfast_rwlock_writers:{"+name+"}").Result()
			require.NoError(t, err)
			// The first attempt brings a place. Who listens has had the answer.
			channel := "redisson_rwlock:{" + name + "}"
			return int(min(n, direct.PubSubNumSub(t.Context(), channel).Val()[channel]))
		},
		Lose: func(t *testing.T, name string) {
			require.NoError(t, direct.Del(t.Context(), name).Err())
			require.NoError(t, direct.HSet(t.Context(), name, "mode", "write", "110cc421-94e6-4f2e-9a4b-2f6b5d8a7c11:47:write", 1).Err())
			require.NoError(t, direct.PExpire(t.Context(), name, time.Hour).Err())
		},
		Sent: func(t *testing.T) int64 {
			calls := srv.CommandCalls(t)
			return calls["eval"] + calls["evalsha"] + calls["subscribe"]
		},
	})
}
