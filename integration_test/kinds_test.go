package integration_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// sameKeys are the kinds that have their locks in the same keys, and the scripts by which each asks
// for one.
var sameKeys = []struct {
	name    string
	lock    func(*holdfast.Client, string, ...holdfast.Option) holdfast.Locker
	acquire *lua.Script
}{
	{"rlock", func(c *holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
		return rlock.New(c, name, opts...)
	}, lua.Acquire},
	{"fairlock", func(c *holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
		return fairlock.New(c, name, opts...)
	}, lua.FairAcquire},
}

// TestKindsDoNotReenterEachOther: under a hold of one kind the other kind is refused the name,
// before anything is sent, and both go on.
func TestKindsDoNotReenterEachOther(t *testing.T) {
	for i, outer := range sameKeys {
		inner := sameKeys[1-i]
		t.Run(inner.name+" under "+outer.name, func(t *testing.T) {
			srv := redistest.Start(t)
			c := newClient(t, srv.Client(t), nil)
			h, err := outer.lock(c, "x").Lock(t.Context())
			require.NoError(t, err)
			srv.ResetStats(t)
			_, err = inner.lock(c, "x").Lock(h.Context())
			require.ErrorIs(t, err, holdfast.ErrInvalid)
			require.ErrorContains(t, err, outer.name)
			_, err = inner.lock(c, "x").TryLock(h.Context())
			require.ErrorIs(t, err, holdfast.ErrInvalid)
			calls := srv.CommandCalls(t)
			require.Zero(t, calls["evalsha"]+calls["eval"])

			other, err := inner.lock(c, "y").Lock(h.Context())
			require.NoError(t, err, "another name")
			require.NoError(t, other.Unlock(t.Context()))
			again, err := outer.lock(c, "x").Lock(h.Context())
			require.NoError(t, err, "its own kind")
			require.NoError(t, again.Unlock(t.Context()))
			require.NoError(t, h.Unlock(t.Context()))

			defer defence.OneKind.Without(t)()
			h, err = outer.lock(c, "x").Lock(t.Context())
			require.NoError(t, err)
			_, err = inner.lock(c, "x").TryLock(h.Context())
			require.ErrorIs(t, err, holdfast.ErrNotAcquired, "control: it would wait for itself")
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}

// TestKindsHaveIDsOfTheirOwn: where an attempt of one kind gets to the server under a hold of the
// other, and is repeated, it is refused, and the other's hash is left alone.
func TestKindsHaveIDsOfTheirOwn(t *testing.T) {
	defer defence.OneKind.Without(t)() // else it would never get there
	for i, outer := range sameKeys {
		inner := sameKeys[1-i]
		attempt := func(t *testing.T) error {
			srv := redistest.Start(t)
			proxy := faultproxy.New(t, srv.Addr())
			c, direct := newClient(t, redistest.NewClient(t, proxy.Addr()), nil), srv.Client(t)
			h, err := outer.lock(c, "x").Lock(t.Context())
			require.NoError(t, err)
			rule := proxy.On(faultproxy.Script(inner.acquire.Hash()), 1, faultproxy.DropReply)
			second, err := inner.lock(c, "x").TryLock(h.Context())
			require.Equal(t, 1, rule.Count())
			if err == nil {
				require.NoError(t, second.Unlock(t.Context()))
				require.Zero(t, direct.Exists(t.Context(), "x").Val(), "free under a hold that lives")
			}
			require.NoError(t, context.Cause(h.Context()))
			_ = h.Unlock(t.Context())
			return err
		}
		t.Run(inner.name+" under "+outer.name, func(t *testing.T) {
			require.ErrorIs(t, attempt(t), holdfast.ErrNotAcquired)
			defer defence.KindIDs.Without(t)()
			require.NoError(t, attempt(t), "control: it is taken for the other's holder")
		})
	}
}
