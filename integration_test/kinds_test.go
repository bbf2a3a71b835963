package integration_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
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

// TestKindsAtRandom: owners use several kinds for one name, nested too, and replies get lost. Never
// are two of them inside.
func TestKindsAtRandom(t *testing.T) {
	seed := level.Seed(t)
	require.Empty(t, kindsAtRandom(t, seed, 40))
	t.Run("control", func(t *testing.T) {
		defer defence.OneKind.Without(t)()
		defer defence.KindIDs.Without(t)()
		require.NotEmpty(t, kindsAtRandom(t, seed, 4000), "with one id for all kinds nothing was found")
	})
}

// kindsAtRandom returns what first went wrong in so many rounds of each actor.
func kindsAtRandom(t *testing.T, seed uint64, rounds int) string {
	t.Helper()
	const actors = 3
	srv := redistest.Start(t)
	proxy := faultproxy.New(t, srv.Addr())
	opts := &holdfast.Options{Lease: patience, RetryBudget: patience}
	var inside atomic.Int32
	var wrong atomic.Pointer[string]
	say := func(what string) { wrong.CompareAndSwap(nil, &what) }
	var group sync.WaitGroup
	for n := range uint64(actors) {
		c := newClient(t, redistest.NewClient(t, proxy.Addr()), opts)
		rnd := rand.New(rand.NewPCG(seed, n)) //nolint:gosec // for tests
		group.Go(func() {
			for range rounds {
				if wrong.Load() != nil {
					return
				}
				first, second := sameKeys[rnd.IntN(len(sameKeys))], sameKeys[rnd.IntN(len(sameKeys))]
				h, err := first.lock(c, "x").Lock(t.Context())
				if err != nil {
					say("not acquired: " + err.Error())
					return
				}
				if inside.Add(1) > 1 {
					say("two are inside")
				}
				if rnd.IntN(2) == 0 {
					proxy.On(faultproxy.Script(second.acquire.Hash()), 1, faultproxy.DropReply)
				}
				inner, err := second.lock(c, "x").TryLock(h.Context())
				if (err == nil) != (first.name == second.name) {
					say(second.name + " under " + first.name + ": granted, or not")
				}
				if err == nil {
					if err := inner.Unlock(t.Context()); err != nil {
						say("unlock: " + err.Error())
					}
				}
				inside.Add(-1)
				if err := h.Unlock(t.Context()); err != nil {
					say("unlock: " + err.Error())
				}
			}
		})
	}
	group.Wait()
	if what := wrong.Load(); what != nil {
		return *what
	}
	return ""
}
