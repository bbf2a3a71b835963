package peers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// asks are the commands that ask for a lock beside strings, whatever their text is.
func asks(args []string) bool {
	return strings.HasPrefix(strings.ToLower(args[0]), "eval") && len(args) > 3 && args[3] == "orders:42" && (args[2] == "2" || args[2] == "3") && len(args) > 8
}

// strictly closes a client, and demands that nothing is left.
func strictly(t *testing.T, c *holdfast.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, c.Close(ctx))
}

// TestStringInThePlace: where a string stands in the place of what a client may hold, there is nothing to give
// back. The client knows that, and says so.
func TestStringInThePlace(t *testing.T) {
	for title, play := range map[string]func(t *testing.T, rdb *redis.Client, proxy *faultproxy.Proxy, m *rlock.Mutex){
		"no reply to Lock arrives": func(t *testing.T, rdb *redis.Client, proxy *faultproxy.Proxy, m *rlock.Mutex) {
			require.NoError(t, rdb.Set(t.Context(), "orders:42", "whose", time.Minute).Err())
			rule := proxy.On(asks, 0, faultproxy.DropReply)
			_, err := m.Lock(t.Context())
			require.ErrorIs(t, err, holdfast.ErrUnavailable)
			rule.Clear()
		},
		"unlock": func(t *testing.T, rdb *redis.Client, _ *faultproxy.Proxy, m *rlock.Mutex) {
			h := overwritten(t, rdb, m)
			require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
		},
		"leave": func(t *testing.T, rdb *redis.Client, _ *faultproxy.Proxy, m *rlock.Mutex) {
			h := overwritten(t, rdb, m, holdfast.HoldAtLeast(time.Minute))
			require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
		},
		"extend": func(t *testing.T, rdb *redis.Client, _ *faultproxy.Proxy, m *rlock.Mutex) {
			h := overwritten(t, rdb, m)
			require.ErrorIs(t, h.Extend(t.Context(), time.Minute), holdfast.ErrLost)
			require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrLost)
		},
		"re-enter": func(t *testing.T, rdb *redis.Client, _ *faultproxy.Proxy, m *rlock.Mutex) {
			h := overwritten(t, rdb, m)
			_, err := m.Lock(h.Context())
			require.ErrorIs(t, err, holdfast.ErrLost)
			require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrLost)
		},
	} {
		t.Run(title, func(t *testing.T) {
			srv := redistest.Start(t)
			rdb, proxy := srv.Client(t), faultproxy.New(t, srv.Addr())
			c, err := holdfast.New(redistest.NewClient(t, proxy.Addr()), &holdfast.Options{RetryBudget: 300 * time.Millisecond})
			require.NoError(t, err)
			m := rlock.New(c, "orders:42", holdfast.RespectStrings())
			h, err := m.Lock(t.Context()) // the scripts are known, and so is the clock
			require.NoError(t, err)
			require.NoError(t, h.Unlock(t.Context()))
			play(t, rdb, proxy, m)
			require.Equal(t, "whose", rdb.Get(t.Context(), "orders:42").Val())
			strictly(t, c)
		})
	}
}

func overwritten(t *testing.T, rdb *redis.Client, m *rlock.Mutex, opts ...holdfast.Option) *holdfast.Hold {
	t.Helper()
	h, err := m.Lock(t.Context(), opts...)
	require.NoError(t, err)
	require.NoError(t, rdb.Set(t.Context(), "orders:42", "whose", time.Minute).Err())
	return h
}
