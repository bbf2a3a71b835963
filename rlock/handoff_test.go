package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestHandOff: 64 goroutines of one client. The lock hardly goes back to the server, and without
// hand-offs always.
func TestHandOff(t *testing.T) {
	const goroutines, rounds = 64, 10
	srv := redistest.Start(t)
	m := rlock.New(newClient(t, srv.Client(t), nil), "a")
	scripts := func(opts ...holdfast.Option) int64 {
		srv.ResetStats(t)
		require.IsIncreasing(t, chain(t, m, goroutines, rounds, opts...))
		calls := srv.CommandCalls(t)
		return calls["evalsha"] + calls["eval"]
	}
	const grants = goroutines * rounds
	start := time.Now()
	handed := scripts()
	t.Logf("%d scripts for %d grants", handed, grants)
	looks := int64(time.Since(start) / (10 * time.Millisecond)) // of a slow machine most are for these
	require.Less(t, handed, grants/8+looks)
	require.GreaterOrEqual(t, scripts(holdfast.NoHandoff()), int64(2*grants), "control: two scripts for each")
	require.True(t, free(t, srv.Client(t), "a"))
}

// TestHandOffBesideRedisson: where a client of Redisson was seen to have the lock, the server is asked
// after each hold whether somebody listens. The control is another lock, which Redisson does not use.
func TestHandOffBesideRedisson(t *testing.T) {
	const goroutines, rounds = 16, 20
	p := newProxied(t, nil)
	asks := func(name string) int { // how often the server was asked
		before := p.proxy.Seen(script(lua.Pass))
		chain(t, rlock.New(p.client, name), goroutines, rounds)
		return p.proxy.Seen(script(lua.Pass)) - before
	}
	require.NoError(t, p.direct.HSet(t.Context(), "a", "8743c9c0-0795-4907-87fd-6c719a6b4586:1", 1).Err())
	refused(t.Context(), t, p.mutex.TryLock)
	require.NoError(t, p.direct.Del(t.Context(), "a").Err())
	require.Greater(t, asks("a"), goroutines*rounds/3, "a turn is two grants at most")
	defer defence.Look.Without(t)() // or a slow machine asks as often, as a turn is a time there
	require.Less(t, asks("b"), goroutines*rounds/4, "control")
}

// handed makes a hold that was handed on from another one of the same client.
func handed(t *testing.T, m *rlock.Mutex, opts ...holdfast.Option) (first, next *holdfast.Hold) {
	l := lineUp(t.Context(), t, m, 1, opts...)
	unlock(t, l.holder)
	return l.holder, l.next[0].Hold()
}

// TestHandedHolder: the hash names the one who got the lock from the server for as long as the client
// hands it on, and so does every holder. Who got the lock handed re-enters, extends, unlocks within and
// at last.
func TestHandedHolder(t *testing.T) {
	c, rdb := shared(t, nil)
	m := rlock.New(c, uniqueName(t))
	first, next := handed(t, m)
	require.Equal(t, first.Owner(), next.Owner())
	counts := func(n string) {
		require.Equal(t, map[string]string{next.Owner(): n}, rdb.HGetAll(t.Context(), m.Name()).Val())
	}
	counts("1")
	s, err := m.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, next.Owner(), s.Owner)
	require.GreaterOrEqual(t, s.Token, next.Token())
	inner := take(next.Context(), t, m.Lock)
	require.Equal(t, next.Token(), inner.Token())
	counts("2")
	require.NoError(t, inner.Extend(t.Context(), time.Minute))
	require.Greater(t, rdb.PTTL(t.Context(), m.Name()).Val(), 50*time.Second)
	unlock(t, inner)
	counts("1")
	require.NoError(t, context.Cause(next.Context()))
	unlock(t, next)
	require.True(t, free(t, rdb, m.Name()))
	require.ErrorIs(t, next.Unlock(t.Context()), holdfast.ErrReleased)
}

// TestOwnerThatHandedOnIsAnother: the lock was handed on, and whoever had it before asks for it
// again. The hash still has the id under which that was granted, but it is not theirs any more: an
// attempt that is repeated is refused.
func TestOwnerThatHandedOnIsAnother(t *testing.T) {
	again := func(t *testing.T) error {
		p := newProxied(t, nil)
		warm(t, p)
		owner := holdfast.WithOwner(t.Context())
		first := take(owner, t, p.mutex.Lock)
		l := &line{mutex: p.mutex}
		l.join(t.Context(), t)
		unlock(t, first)
		next := l.next[0].Hold()
		require.Equal(t, first.Owner(), next.Owner(), "handed on")
		rule := p.proxy.On(script(lua.Acquire), 1, faultproxy.DropReply)
		second, err := p.mutex.TryLock(owner)
		require.Equal(t, 1, rule.Count())
		if err == nil {
			require.NoError(t, context.Cause(next.Context()), "two holders")
			_ = second.Unlock(t.Context())
		}
		_ = next.Unlock(t.Context())
		return err
	}
	require.ErrorIs(t, again(t), holdfast.ErrNotAcquired)
	defer defence.FreshOwner.Without(t)()
	require.NoError(t, again(t), "control: it is taken for the holder")
}

// TestNotHandedOn: the lock goes back to the server where the next one wants another lease, none
// that is renewed, or no hand-off, and where the one before had that.
func TestNotHandedOn(t *testing.T) {
	lease, plain, never := holdfast.Lease(20*time.Second), holdfast.NoRenewal(), holdfast.NoHandoff()
	for name, row := range map[string]struct {
		first, next []holdfast.Option
		handed      bool
	}{
		"nothing":             {nil, nil, true},
		"other lease":         {nil, []holdfast.Option{lease}, false},
		"same lease":          {[]holdfast.Option{lease}, []holdfast.Option{lease}, true},
		"next not renewed":    {nil, []holdfast.Option{plain}, false},
		"first not renewed":   {[]holdfast.Option{plain}, nil, false},
		"next without":        {nil, []holdfast.Option{never}, false},
		"first without":       {[]holdfast.Option{never}, nil, false},
		"neither is renewed":  {[]holdfast.Option{plain}, []holdfast.Option{plain}, false},
		"default lease, said": {nil, []holdfast.Option{holdfast.Lease(holdfast.DefaultLease)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, rdb := shared(t, nil)
			m := rlock.New(c, uniqueName(t))
			l := lineUp(t.Context(), t, m, 0, row.first...)
			l.join(t.Context(), t, row.next...)
			unlock(t, l.holder)
			next := l.next[0].Hold()
			require.Equal(t, row.handed, l.holder.Owner() == next.Owner())
			require.Greater(t, next.Token(), l.holder.Token())
			unlock(t, next)
			require.True(t, free(t, rdb, m.Name()))
		})
	}
}
