package integration_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestLabelWithTheRule: with the rule clients say who they are, and see that they wait for each other.
// Without the words for that they do neither, and their locks work.
func TestLabelWithTheRule(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rule := aclRule(srv, false)
		rdb := as(t, srv, "labelled", rule+" "+aclLabel)
		heard := make(chan holdfast.DeadlockEvent, 10)
		o := &holdfast.Options{Label: "who", LongWait: 80 * time.Millisecond, Observer: &holdfast.Observer{
			Deadlocked: func(d holdfast.DeadlockEvent) { heard <- d },
		}}
		var clients []*holdfast.Client
		waits, end := context.WithCancel(t.Context())
		done := make(chan error, 2)
		for range 2 {
			c, err := holdfast.New(rdb, o)
			require.NoError(t, err)
			clients = append(clients, c)
		}
		names := []string{"orders:1", "orders:2"}
		var holds []*holdfast.Hold
		for i, c := range clients {
			h, err := rlock.New(c, names[i]).Lock(t.Context())
			require.NoError(t, err)
			holds = append(holds, h)
		}
		for i, c := range clients {
			go func() {
				ctx, cancel := context.WithCancel(holds[i].Context())
				defer cancel()
				defer context.AfterFunc(waits, cancel)()
				_, err := rlock.New(c, names[1-i]).Lock(ctx)
				done <- err
			}()
		}
		for range clients {
			select {
			case d := <-heard:
				require.Equal(t, "who", d.Circle[1].Label)
			case <-time.After(patience):
				require.Fail(t, "nobody saw the deadlock")
			}
		}
		require.Equal(t, "who", srv.Client(t).Get(t.Context(), "holdfast_client:{"+clients[0].ID()+"}").Val())
		end()
		for range clients {
			require.ErrorIs(t, <-done, holdfast.ErrNotAcquired)
		}
		for _, c := range clients {
			require.NoError(t, c.Close(t.Context()))
		}
		require.Empty(t, refused(t, srv))
		require.Empty(t, srv.Client(t).Keys(t.Context(), "holdfast_client*").Val())

		c, err := holdfast.New(as(t, srv, "less", rule), o)
		require.NoError(t, err)
		h, err := rlock.New(c, names[0]).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
		require.NoError(t, c.Close(t.Context()))
		require.True(t, slices.ContainsFunc(refused(t, srv), func(object string) bool {
			return strings.HasPrefix(object, "holdfast_client:{") || object == "key"
		}), "control: the label was refused")
		require.ErrorIs(t, srv.Client(t).Get(t.Context(), "holdfast_client:{"+c.ID()+"}").Err(), redis.Nil)
	})
}
