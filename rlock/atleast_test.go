package rlock_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestHoldAtLeast: what is left of the time stands at the server when Unlock returns, whether it is
// shorter or longer than the lease, and the hold has ended all the same.
func TestHoldAtLeast(t *testing.T) {
	for name, d := range map[string]time.Duration{"shorter than the lease": 10 * time.Second, "longer": time.Hour} {
		t.Run(name, func(t *testing.T) {
			c, rdb := shared(t, nil)
			m := rlock.New(c, uniqueName(t), holdfast.HoldAtLeast(d))
			before := time.Now()
			h, err := m.Lock(t.Context())
			require.NoError(t, err)
			left := rdb.PTTL(t.Context(), m.Name()).Val()
			require.Greater(t, left, d-patience, "already from the grant on")
			granted := time.Now()
			require.NoError(t, h.Unlock(t.Context()))
			require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrReleased)
			left = rdb.PTTL(t.Context(), m.Name()).Val()
			// The answer may have taken its time, and a key lives through its last millisecond.
			end := time.Now().Add(left + time.Millisecond)
			require.True(t, end.After(before.Add(d)), "not too early")
			require.True(t, end.Before(granted.Add(d+d/50+patience)), "nor much too late")
			s, err := m.State(t.Context())
			require.NoError(t, err)
			require.Equal(t, h.Owner(), s.Owner)
			require.Equal(t, h.Token(), s.Token)
			_, err = m.TryLock(t.Context())
			require.ErrorIs(t, err, holdfast.ErrNotAcquired)
			_, err = m.TryLock(h.Context())
			require.ErrorIs(t, err, holdfast.ErrUnavailable, "its context has ended")
			require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrReleased)
			there, err := m.ForceUnlock(t.Context())
			require.NoError(t, err)
			require.True(t, there)
		})
	}
}

// TestHoldAtLeastEndsForWaiters: a waiter that knows of a longer lease gets the lock when the time
// is over, with a greater token, and not before. So does one of the same client, and one under the
// same owner.
func TestHoldAtLeastEndsForWaiters(t *testing.T) {
	c, _ := shared(t, nil)
	other, _ := shared(t, nil)
	name := uniqueName(t)
	const d = 500 * time.Millisecond
	start := time.Now()
	own := holdfast.WithOwner(t.Context())
	h, err := rlock.New(c, name, holdfast.HoldAtLeast(d)).Lock(own)
	require.NoError(t, err)
	type got struct {
		token uint64
		at    time.Time
		err   error
	}
	results := make(chan got, 3)
	lock := func(ctx context.Context, c *holdfast.Client) {
		next, err := rlock.New(c, name).Lock(ctx, holdfast.Wait(patience))
		if err != nil {
			results <- got{err: err}
			return
		}
		at := time.Now()
		results <- got{next.Token(), at, next.Unlock(context.Background())}
	}
	go lock(t.Context(), c)
	go lock(t.Context(), other)
	require.NoError(t, h.Unlock(t.Context()))
	go lock(own, c)
	for range 3 {
		r := <-results
		require.NoError(t, r.err)
		require.Greater(t, r.token, h.Token())
		require.GreaterOrEqual(t, r.at.Sub(start), d)
	}
}

// TestHoldAtLeastOnce: what happens to the command that leaves the lock does not free it, nor put
// off its end.
func TestHoldAtLeastOnce(t *testing.T) {
	for _, fault := range faults {
		t.Run(fault.String(), func(t *testing.T) {
			p := newProxied(t, nil)
			warm(t, p)
			h, err := p.mutex.Lock(t.Context(), holdfast.HoldAtLeast(time.Minute))
			require.NoError(t, err)
			granted := time.Now()
			p.proxy.On(faultproxy.Script(lua.Leave.Hash()), 1, fault)
			require.NoError(t, h.Unlock(t.Context()))
			require.NoError(t, p.client.Close(t.Context())) // joins what is done in the background
			left := p.direct.PTTL(t.Context(), "a").Val()
			require.GreaterOrEqual(t, time.Now().Add(left).Sub(granted), time.Minute-time.Second)
			require.False(t, free(t, p.direct, "a"))
		})
	}
}

// stays is a lock that is to stay for an hour, lost or left in one of several ways. It returns an
// error if it does not stay.
func stays(t *testing.T, end func(p *proxied, h *holdfast.Hold)) error {
	t.Helper()
	p := newProxied(t, &holdfast.Options{Lease: time.Second, RetryBudget: 300 * time.Millisecond})
	warm(t, p)
	h, err := p.mutex.Lock(t.Context(), holdfast.HoldAtLeast(time.Hour))
	require.NoError(t, err)
	end(p, h)
	p.proxy.Silence(false)
	require.NoError(t, p.client.Close(t.Context())) // joins what is done in the background
	if free(t, p.direct, "a") {
		return errors.New("the lock is free")
	}
	return nil
}

var endings = map[string]func(p *proxied, h *holdfast.Hold){
	"unlocked": func(_ *proxied, h *holdfast.Hold) { _ = h.Unlock(context.Background()) },
	"closed":   func(p *proxied, _ *holdfast.Hold) { _ = p.client.Close(context.Background()) },
	"unlocked without an answer": func(p *proxied, h *holdfast.Hold) {
		p.proxy.Silence(true)
		_ = h.Unlock(context.Background())
	},
	"lost": func(p *proxied, h *holdfast.Hold) {
		p.proxy.Silence(true)
		<-h.Context().Done()
	},
}

// TestHoldAtLeastStays: whatever becomes of the hold, the lock stays taken. (A process that dies
// sends nothing: that is the time to live which it was granted with.)
func TestHoldAtLeastStays(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) { require.NoError(t, stays(t, end)) })
	}
}

// The control: without the defence each of these frees it.
func TestHoldAtLeastStaysControl(t *testing.T) {
	t.Cleanup(defence.Stay.Without(t))
	for name, end := range endings {
		t.Run(name, func(t *testing.T) { require.Error(t, stays(t, end)) })
	}
}

// TestHoldAtLeastInside: Do and SyncLocker leave the lock like Unlock, inner holds do not count,
// and one that is held for longer than that is released as ever.
func TestHoldAtLeastInside(t *testing.T) {
	c, rdb := shared(t, nil)
	m := rlock.New(c, uniqueName(t), holdfast.HoldAtLeast(time.Minute))
	require.NoError(t, holdfast.Do(t.Context(), m, func(context.Context) error { return nil }))
	require.False(t, free(t, rdb, m.Name()))

	m = rlock.New(c, uniqueName(t)+"-sync", holdfast.HoldAtLeast(time.Minute))
	var l sync.Locker = holdfast.SyncLocker(t.Context(), m)
	l.Lock()
	l.Unlock() //nolint:staticcheck // an empty section
	require.False(t, free(t, rdb, m.Name()))

	m = rlock.New(c, uniqueName(t)+"-nested")
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	inner, err := m.Lock(h.Context(), holdfast.HoldAtLeast(time.Minute))
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(t.Context()))
	require.NoError(t, h.Unlock(t.Context()))
	require.True(t, free(t, rdb, m.Name()), "the outermost counts")

	h, err = m.Lock(t.Context(), holdfast.HoldAtLeast(time.Millisecond))
	require.NoError(t, err)
	<-time.After(10 * time.Millisecond) // the time that is to pass
	require.NoError(t, h.Unlock(t.Context()))
	require.True(t, free(t, rdb, m.Name()))
}

// TestHoldAtLeastBadInput: what cannot be a time is refused before anything is sent.
func TestHoldAtLeastBadInput(t *testing.T) {
	c, _ := shared(t, nil)
	for d, remedy := range map[time.Duration]string{
		math.MinInt64: "use at least 1ms,", -time.Second: "use at least 1ms,", 0: "use at least 1ms,",
		time.Microsecond: "use at least 1ms,", math.MaxInt64: "use at most 2562047h47m16.853775807s,",
	} {
		_, err := rlock.New(c, uniqueName(t)).Lock(t.Context(), holdfast.HoldAtLeast(d))
		require.ErrorIs(t, err, holdfast.ErrInvalid)
		require.ErrorContains(t, err, "HoldAtLeast is "+d.String())
		require.ErrorContains(t, err, remedy)
	}
}
