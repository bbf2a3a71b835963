package rlock_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestStringFaults: a question beside strings meets each fault. It is repeated: a free lock is granted once, and
// of a string nothing is changed. What may have been granted is given back, and nobody is told of trouble where
// there was nothing but the string.
func TestStringFaults(t *testing.T) {
	for _, fault := range faults {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			logged, closed := besideAString(t, fault)
			require.NoError(t, closed)
			require.Equal(t, []string{""}, logged)
		})
	}
}

// TestStringFaultsControl: else Close says that locks are left which never were.
func TestStringFaultsControl(t *testing.T) {
	defer defence.BesideStrings.Without(t)()
	_, closed := besideAString(t, faultproxy.DropReply)
	require.ErrorContains(t, closed, "may be left in Redis")
}

// besideAString has a fault happen to a question for a free lock, and to one for a string, and closes the client.
func besideAString(t *testing.T, fault faultproxy.Action) (logged []string, closed error) {
	t.Helper()
	log := &noted{}
	p := newProxied(t, nil)
	ctx := t.Context()
	c, err := holdfast.New(redistest.NewClient(t, p.proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = 200 * time.Millisecond }),
		&holdfast.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	m := rlock.New(c, "a", holdfast.RespectStrings())
	h, err := m.Lock(ctx) // the scripts are known from now on
	require.NoError(t, err)
	require.NoError(t, h.Unlock(ctx))

	rule := p.proxy.On(script(lua.AcquireBeside), 1, fault)
	h = take(ctx, t, m.Lock)
	require.Equal(t, 1, rule.Count())
	require.Equal(t, 1, count(t, p.direct, "a", h.Owner()))
	require.NoError(t, h.Unlock(ctx))

	p.proxy.Clear()
	require.NoError(t, p.direct.Set(ctx, "a", "whose", time.Minute).Err())
	rule = p.proxy.On(script(lua.AcquireBeside), 1, fault)
	refused(ctx, t, m.Lock, holdfast.Wait(time.Second))
	require.Equal(t, 1, rule.Count())
	closed = c.Close(ctx)
	require.Equal(t, "whose", p.direct.Get(ctx, "a").Val())
	return log.lines(), closed
}
