package inspect_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// TestUncounted: Redis knows nothing of those who wait behind a holder of their own client, and Uncounted says that there may
// be some. Of kinds whose waiters all have places it says that there are none.
func TestUncounted(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	i := newInspector(t, rdb, nil)
	for _, k := range []struct {
		kind  string
		of    func(*holdfast.Client, string) holdfast.Locker
		hides bool
	}{
		{"rlock", func(c *holdfast.Client, name string) holdfast.Locker { return rlock.New(c, name) }, true},
		{"redlock", func(c *holdfast.Client, name string) holdfast.Locker {
			return redlock.New([]*holdfast.Client{c}, name, redlock.TrustRestarts(), redlock.MasterTimeout(kindtest.Patience/2))
		}, true},
		{"rwlock", func(c *holdfast.Client, name string) holdfast.Locker { return rwlock.New(c, name) }, true},
		{"fairlock", func(c *holdfast.Client, name string) holdfast.Locker { return fairlock.New(c, name) }, false},
		{"semaphore", func(c *holdfast.Client, name string) holdfast.Locker { return semaphore.New(c, name, 1) }, false},
	} {
		t.Run(k.kind, func(t *testing.T) {
			c, name := newClient(t, rdb, &holdfast.Options{Lease: 2 * kindtest.Patience}), t.Name()
			m := k.of(c, name)
			h := hold(t, m)
			const waiters = 3
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, waiters)
			for range waiters {
				go func() {
					_, err := m.Lock(ctx)
					done <- err
				}()
			}
			eventually(t, "all wait", func() bool {
				if k.hides {
					return (*engine.Client)(c).InLine(name) == 1+waiters
				}
				return look(t, i, name).Waiters == waiters
			})
			l := look(t, i, name)
			require.Equal(t, k.hides, l.Uncounted())
			if k.hides {
				require.LessOrEqual(t, l.Waiters, 0)
				require.Zero(t, l.Listening)
			}
			cancel()
			for range waiters {
				require.Error(t, <-done)
			}
			require.NoError(t, h.Unlock(t.Context()))
			eventually(t, "nobody has it, not for who has just left either", func() bool {
				l := look(t, i, name)
				return !l.Uncounted()
			})
		})
	}
	redissons := inspect.Lock{Kind: inspect.Plain, Holders: []inspect.Holder{{Redisson: true}}}
	require.False(t, redissons.Uncounted(), "they all listen")
}
