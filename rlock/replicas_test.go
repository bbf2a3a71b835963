package rlock_test

import (
	"context"
	"errors"
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

// soon is what replicas are given that will not confirm, and longer than those that will need.
const soon = 300 * time.Millisecond

var waits = faultproxy.Command("WAIT")

// replicatedLab is a primary with a replica, and a client before which there is a proxy.
func replicatedLab(t *testing.T, change ...func(*redis.Options)) (*redistest.Replicated, *faultproxy.Proxy,
	*holdfast.Client) {
	r := redistest.StartReplicated(t, 1)
	r.Primary().Command(t, "WAIT", "1", "0") // a replica counts when it has spoken for the first time
	proxy := faultproxy.New(t, r.Primary().Addr())
	return r, proxy, newClient(t, redistest.NewClient(t, proxy.Addr(), change...), nil)
}

// requireGivenBack: nothing is held, and another client has the lock at once.
func requireGivenBack(t *testing.T, srv *redistest.Server, name string) {
	rdb := srv.Client(t)
	require.True(t, free(t, rdb, name), "given back before the error was told")
	unlock(t, take(t.Context(), t, rlock.New(newClient(t, rdb, nil), name).TryLock))
}

// TestTooFewReplicas: a replica that does not follow, and one that is not there.
func TestTooFewReplicas(t *testing.T) {
	t.Parallel()
	r, _, c := replicatedLab(t, func(o *redis.Options) { o.ReadTimeout = soon / 2 }) // less than a replica is given
	_, err := rlock.New(c, "a").Lock(t.Context(), holdfast.Replicas(2, soon))
	tells(t, err, holdfast.ErrNotReplicated, not(holdfast.ErrNotAcquired), not(holdfast.ErrUncertain))
	require.Regexp(t, `^rlock: lock "a": not replicated: [01] of 2 replicas confirmed within 300ms; the server has 1, `+
		`so the lock cannot be had; ask for 1, or repair the other replicas$`, err.Error()) // a busy one may be late
	requireGivenBack(t, r.Primary(), "a")

	r.Replicas()[0].Pause()
	owner := holdfast.WithOwner(t.Context())
	_, err = rlock.New(c, "a").TryLock(owner, holdfast.Replicas(1, soon))
	require.EqualError(t, err, `rlock: try "a": not replicated: 0 of 1 replicas confirmed within 300ms`)
	requireGivenBack(t, r.Primary(), "a")

	first := begin(t.Context(), t, rlock.New(c, "a").Lock, holdfast.Replicas(1, soon))
	_, err = rlock.New(c, "a").Lock(t.Context(), holdfast.Replicas(1, soon))
	require.ErrorIs(t, err, holdfast.ErrNotReplicated)
	require.ErrorIs(t, first.Err(), holdfast.ErrNotReplicated, "one waits for the other, and is not handed what no replica has")
	requireGivenBack(t, r.Primary(), "a")

	r.Replicas()[0].Resume()
	unlock(t, take(owner, t, rlock.New(c, "a").Lock, holdfast.Replicas(1, patience)))
}

// TestReplicasAreWaitedForAgain: a reply is lost, that of the write or the one to WAIT, and all is sent again.
func TestReplicasAreWaitedForAgain(t *testing.T) {
	for what, lost := range map[string]func([]string) bool{"write": faultproxy.Script(lua.Recount.Hash()),
		"wait": waits} {
		for _, action := range []faultproxy.Action{faultproxy.DropReply, faultproxy.DropRequest, faultproxy.Cut} {
			t.Run(what+" "+action.String(), func(t *testing.T) {
				t.Parallel()
				r, proxy, c := replicatedLab(t)
				m := rlock.New(c, "a", holdfast.Replicas(1, patience))
				fault := proxy.On(lost, 1, action)
				h := lock(t, m)
				require.Equal(t, 1, fault.Count())
				require.Equal(t, 1, count(t, r.Primary().Client(t), "a", h.Owner()))
				unlock(t, h)

				r.Replicas()[0].Pause()
				fault = proxy.On(lost, 1, action)
				_, err := m.Lock(t.Context(), holdfast.Replicas(1, soon))
				require.ErrorIs(t, err, holdfast.ErrNotReplicated, "and counted again")
				require.Equal(t, 1, fault.Count())
				requireGivenBack(t, r.Primary(), "a")
			})
		}
	}
}

// TestLostBeforeReplicasHaveIt: the key vanishes between the grant and its confirmation, as in a failover.
func TestLostBeforeReplicasHaveIt(t *testing.T) {
	r, proxy, c := replicatedLab(t)
	rdb := r.Primary().Client(t)
	late := proxy.DelayRequest(faultproxy.Script(lua.Recount.Hash()), 1, patience)
	failed := begin(t.Context(), t, rlock.New(c, "a").Lock, holdfast.Replicas(1, soon))
	<-late.Fired()
	require.NoError(t, rdb.Del(t.Context(), "a").Err())
	late.Release()
	err := failed.Err()
	tells(t, err, holdfast.ErrNotReplicated, "not held by this owner")
	requireGivenBack(t, r.Primary(), "a")
}

// TestLeavingWhileReplicasAreWaitedFor: the caller leaves, its client is closed, the wait is over. Nothing is left behind.
func TestLeavingWhileReplicasAreWaitedFor(t *testing.T) {
	for what, row := range map[string]struct {
		leave func(c *holdfast.Client, cancel func())
		opts  []holdfast.Option
		says  error
	}{
		"cancel": {func(_ *holdfast.Client, cancel func()) { cancel() }, nil, context.Canceled},
		"Wait":   {func(*holdfast.Client, func()) {}, []holdfast.Option{holdfast.Wait(soon)}, holdfast.ErrUnavailable},
		"Close":  {func(c *holdfast.Client, _ func()) { _ = c.Close(context.Background()) }, nil, holdfast.ErrClosed},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, proxy, c := replicatedLab(t)
			r.Replicas()[0].Pause()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failed := begin(ctx, t, rlock.New(c, "a").Lock, append(row.opts, holdfast.Replicas(1, 3*time.Second))...)
			eventually(t, "waited for", func() bool { return proxy.Seen(waits) > 0 })
			row.leave(c, cancel)
			err := failed.Err()
			require.ErrorIs(t, err, row.says)
			require.True(t, what == "Close" || errors.Is(err, holdfast.ErrUnavailable))
			eventually(t, "given back", func() bool { return free(t, r.Primary().Client(t), "a") })
			requireGivenBack(t, r.Primary(), "a")
		})
	}
}

// TestABudgetEndsTheWaitForReplicas: whatever go-redis waits for an answer. The replicas have their time on top.
func TestABudgetEndsTheWaitForReplicas(t *testing.T) {
	t.Parallel()
	r := redistest.StartReplicated(t, 1)
	r.Primary().Command(t, "WAIT", "1", "0")
	proxy := faultproxy.New(t, r.Primary().Addr())
	c := newClient(t, redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = -1 }),
		&holdfast.Options{RetryBudget: soon})
	proxy.On(waits, 0, faultproxy.DropReply)
	failed := begin(t.Context(), t, rlock.New(c, "a").TryLock, holdfast.Replicas(1, soon))
	require.ErrorIs(t, failed.Err(), holdfast.ErrUnavailable)
	proxy.Clear()
	eventually(t, "given back", func() bool { return free(t, r.Primary().Client(t), "a") })
	requireGivenBack(t, r.Primary(), "a")
}

// TestReentryAndReplicas: who re-enters waits for replicas only if it wants more than the hold has.
func TestReentryAndReplicas(t *testing.T) {
	t.Parallel()
	r, proxy, c := replicatedLab(t)
	m, rdb := rlock.New(c, "a"), r.Primary().Client(t)
	seen := func() int { return proxy.Seen(waits) }
	outer := lock(t, m)
	require.Zero(t, seen())

	r.Replicas()[0].Pause()
	_, err := m.Lock(outer.Context(), holdfast.Replicas(1, soon))
	require.ErrorIs(t, err, holdfast.ErrNotReplicated)
	require.NoError(t, outer.Context().Err(), "the hold that it was to enter stands")
	eventually(t, "the count is taken back", func() bool { return count(t, rdb, "a", outer.Owner()) == 1 })
	r.Replicas()[0].Resume()

	inner := take(outer.Context(), t, m.Lock, holdfast.Replicas(1, patience))
	require.Equal(t, "2", r.Replicas()[0].Command(t, "HGET", "a", outer.Owner()))
	before := seen()
	r.Replicas()[0].Pause()
	third := take(inner.Context(), t, m.Lock, holdfast.Replicas(1, patience))
	require.Equal(t, before, seen(), "it is confirmed already")
	for _, h := range []*holdfast.Hold{third, inner, outer} {
		unlock(t, h)
	}
	require.True(t, free(t, rdb, "a"))
}

// TestHandOffAndReplicas: a waiter of the same client is handed the lock only if it wants no more replicas than the holder.
func TestHandOffAndReplicas(t *testing.T) {
	defence.Need(t)
	_, proxy, c := replicatedLab(t)
	m := rlock.New(c, "a")
	acquired := faultproxy.Script(lua.Acquire.Hash())
	asked := func(t *testing.T, first, next []holdfast.Option) (acquires, waited int) {
		h := lock(t, m, first...)
		granted := begin(t.Context(), t, m.Lock, next...)
		eventually(t, "a waiter", func() bool { return queued() == 1 })
		acquires, waited = proxy.Seen(acquired), proxy.Seen(waits)
		defer defence.Look.Without(t)() // however long that took
		defer defence.Reserved.Without(t)()
		unlock(t, h)
		unlock(t, granted.Hold())
		return proxy.Seen(acquired) - acquires, proxy.Seen(waits) - waited
	}
	plain, confirmed := []holdfast.Option(nil), []holdfast.Option{holdfast.Replicas(1, patience)}
	for _, c := range []struct {
		name             string
		first, next      []holdfast.Option
		acquires, waited int
	}{
		{"both", confirmed, confirmed, 0, 0},
		{"first", confirmed, plain, 0, 0},
		{"none", plain, plain, 0, 0},
		{"next", plain, confirmed, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			acquires, waited := asked(t, c.first, c.next)
			require.Equal(t, c.acquires, acquires)
			require.Equal(t, c.waited, waited)
		})
	}
}
