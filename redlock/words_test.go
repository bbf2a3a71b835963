package redlock_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
)

// Why masters do not answer is in the error, in its text and its chain: also to who has closed the go-redis
// clients first.
func TestWhyMastersAreSilent(t *testing.T) {
	t.Parallel()
	closed := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	require.NoError(t, closed.Close())
	for what, rdb := range map[string]*redis.Client{
		"connection refused": redistest.NewClient(t, "127.0.0.1:1"),
		"lookup":             redistest.NewClient(t, "nosuchhost.invalid:6379"),
		"client is closed":   closed,
	} {
		var clients []*holdfast.Client // of which only the first reaches a master
		for _, rdb := range []*redis.Client{redistest.Start(t).Client(t), rdb, rdb} {
			clients = append(clients, kindtest.NewClient(t, rdb, &holdfast.Options{RetryBudget: 100 * time.Millisecond}))
		}
		m := redlock.New(clients, uniqueName(t), redlock.MasterTimeout(2*time.Second))
		for _, acquire := range []kindtest.Acquire{m.TryLock, m.Lock} {
			_, err := acquire(t.Context(), holdfast.Wait(500*time.Millisecond))
			require.ErrorIs(t, err, holdfast.ErrUnavailable)
			require.NotErrorIs(t, err, holdfast.ErrNotAcquired)
			require.ErrorContains(t, err, "1 of 3 masters agreed, and 2 have to")
			require.ErrorContains(t, err, what)
			var dns *net.DNSError
			require.True(t, errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, redis.ErrClosed) || errors.As(err, &dns), "%v", err)
		}
	}
}

// A majority that refuses is contention, and the error says who has the lock.
func TestMajorityRefuses(t *testing.T) {
	t.Parallel()
	l := newLab(t, 5)
	a, b := l.party(nil), l.versed(&holdfast.Options{RetryBudget: 500 * time.Millisecond})
	name := uniqueName(t)
	h := l.everywhere(a.mutex(name, redlock.TrustRestarts()))
	for _, wait := range []holdfast.Option{holdfast.Wait(0), holdfast.Wait(50 * time.Millisecond)} {
		err := refused(t.Context(), t, b.mutex(name).Lock, wait)
		require.ErrorContains(t, err, "held by "+h.Owner()+", whose lease has ")
	}
	for _, i := range []int{0, 1} { // with two out of reach it still is
		b.proxies[i].Stop()
	}
	refused(t.Context(), t, b.mutex(name).TryLock)
	b.proxies[2].Stop()
	_, err := b.mutex(name).TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.NotErrorIs(t, err, holdfast.ErrNotAcquired)
	require.ErrorContains(t, err, "0 of 5 masters agreed, and 3 have to")
	require.ErrorContains(t, err, "held by "+h.Owner())
	unlock(t, h)
}

// TestVoteOfTheDead: one master has the vote of an owner that is gone, one is out of reach, and one is free. Whether
// that owner has the lock is not known, as State says, and the error has what each master said.
func TestVoteOfTheDead(t *testing.T) {
	t.Parallel()
	l, p, m := newParty(t, 3, nil)
	require.NoError(t, lockOnce(t.Context(), m))
	eventually(t, "released", func() bool { return l.held(m.Name()) == 0 })
	l.give(0, m.Name(), "somebody:h1", time.Hour)
	p.proxies[1].Stop()
	_, err := m.State(t.Context())
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	for _, acquire := range []kindtest.Acquire{m.TryLock, m.Lock} {
		_, err := acquire(t.Context(), holdfast.Wait(2*time.Second))
		require.ErrorIs(t, err, holdfast.ErrUnavailable)
		require.NotErrorIs(t, err, holdfast.ErrNotAcquired)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.ErrorContains(t, err, "1 of 3 masters agreed, and 2 have to; 1 (")
		require.ErrorContains(t, err, "): held by \"somebody:h1\"; 2 (")
		require.ErrorContains(t, err, "): granted")
	}
	p.proxies[1].Start()
	require.NoError(t, lockOnce(t.Context(), m), "a minority keeps nobody out")
}

// TryLock asks a majority that is out of reach once, or twice where it does not take long.
func TestTryLockAndOutage(t *testing.T) {
	t.Parallel()
	for _, o := range outages {
		o.run(t, func(t *testing.T) {
			l, p, m := newParty(t, 3, nil)
			require.NoError(t, lockOnce(t.Context(), m))
			o.on(l, p, 0)
			o.on(l, p, 1)
			before := p.proxies[2].Seen(isVote)
			_, err := m.TryLock(t.Context())
			require.ErrorIs(t, err, holdfast.ErrUnavailable)
			n := p.proxies[2].Seen(isVote) - before
			require.Positive(t, n)
			require.LessOrEqual(t, n, 2, "elections")
			o.off(l, p, 0)
			o.off(l, p, 1)
		})
	}
}

// TryLock gets the lock over connections that a restart of proxies has left behind.
func TestTryLockOverStaleConnections(t *testing.T) {
	t.Parallel()
	l, p, m := newParty(t, 3, nil)
	require.NoError(t, lockOnce(t.Context(), m))
	eventually(t, "released", func() bool { return l.held(m.Name()) == 0 })
	for _, proxy := range p.proxies {
		proxy.CutAll()
	}
	unlock(t, take(t.Context(), t, m.TryLock, redlock.MasterTimeout(5*time.Second)))
}

// What was refused a connection was not asked: an unlock that a majority never heard of has not
// happened there.
func TestRefusedConnectionIsNotUncertain(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	p := l.party(&holdfast.Options{RetryBudget: 300 * time.Millisecond})
	m := p.seen(uniqueName(t))
	h := l.everywhere(m)
	for _, proxy := range p.proxies[1:] {
		proxy.Stop()
	}
	for _, rdb := range p.rdbs[1:] {
		eventually(t, "no connection is left from before", func() bool {
			return errors.Is(rdb.Ping(t.Context()).Err(), syscall.ECONNREFUSED) && rdb.PoolStats().TotalConns == 0
		})
	}
	err := h.Unlock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.ErrorContains(t, err, "1 of 3 masters agreed, and 2 have to")
	require.NotErrorIs(t, err, holdfast.ErrUncertain)
}
