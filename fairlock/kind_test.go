package fairlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestKind: what every kind of lock promises.
func TestKind(t *testing.T) {
	srv := redistest.Start(t)
	direct := srv.Client(t)
	kindtest.Run(t, kindtest.Kind{
		Name:  "fairlock",
		Lease: 2 * time.Second,
		Client: func(t *testing.T, opts *holdfast.Options) kindtest.Client {
			c := newClient(t, srv.Client(t), opts)
			return kindtest.Client{
				ID: c.ID(),
				New: func(name string, opts ...holdfast.Option) holdfast.Locker {
					return fairlock.New(c, name, opts...)
				},
				State: func(ctx context.Context, name string) (holdfast.State, error) {
					return fairlock.New(c, name).State(ctx)
				},
				Close: c.Close,
			}
		},
		Waiters: func(t *testing.T, name string) int { return len(queued(t, direct, name)) },
		Lose: func(t *testing.T, name string) {
			require.NoError(t, direct.Del(t.Context(), name).Err())
			require.NoError(t, direct.HSet(t.Context(), name, "110cc421-94e6-4f2e-9a4b-2f6b5d8a7c11:47", 1).Err())
			require.NoError(t, direct.PExpire(t.Context(), name, time.Hour).Err())
		},
		Sent: func(t *testing.T) int64 {
			calls := srv.CommandCalls(t)
			return calls["eval"] + calls["evalsha"] + calls["subscribe"]
		},
	})
}
