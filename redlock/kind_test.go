package redlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/redlock"
)

// TestKind: what every kind of lock promises. The masters are waited for as long as a busy machine
// may need. They are trusted though they were started only now, because the suite leaves locks
// taken for an hour.
func TestKind(t *testing.T) {
	l := newLab(t, 3)
	trusted := []holdfast.Option{redlock.TrustRestarts(), redlock.MasterTimeout(time.Second)}
	kindtest.Run(t, kindtest.Kind{
		Name:  "redlock",
		Lease: 2 * time.Second,
		Client: func(t *testing.T, opts *holdfast.Options) kindtest.Client {
			clients := make([]*holdfast.Client, 0, len(l.masters))
			for _, m := range l.masters {
				c, err := holdfast.New(m.Client(t), opts)
				require.NoError(t, err)
				clients = append(clients, c)
			}
			c := kindtest.Client{
				ID: clients[0].ID(), // to which all holds belong
				New: func(name string, opts ...holdfast.Option) holdfast.Locker {
					return redlock.New(clients, name, append(trusted[:2:2], opts...)...)
				},
				State: func(ctx context.Context, name string) (holdfast.State, error) {
					s, err := redlock.New(clients, name, trusted...).State(ctx)
					return s.State, err
				},
				Close: func(ctx context.Context) (err error) {
					for _, c := range clients {
						err = errors.Join(err, c.Close(ctx))
					}
					return err
				},
			}
			t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
			return c
		},
		Waiters: func(t *testing.T, name string) (n int) { // this kind keeps no queue: they listen, at some masters
			for i := range l.masters {
				n += l.listeners(name, i)
			}
			return n
		},
		Lose: func(t *testing.T, name string) {
			for _, rdb := range l.direct {
				require.NoError(t, rdb.Del(t.Context(), name).Err())
				require.NoError(t, rdb.HSet(t.Context(), name, "110cc421-94e6-4f2e-9a4b-2f6b5d8a7c11:h47", 1).Err())
				require.NoError(t, rdb.PExpire(t.Context(), name, time.Hour).Err())
			}
		},
		Sent: func(t *testing.T) (n int64) {
			for _, m := range l.masters {
				calls := m.CommandCalls(t)
				n += calls["eval"] + calls["evalsha"] + calls["subscribe"]
			}
			return n
		},
	})
}
