package redlock_test

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestInput(t *testing.T) {
	t.Parallel()
	_, p := newProcess(t, 3)
	twice := []*holdfast.Client{p.clients[0], p.clients[1], p.clients[0]}
	for what, m := range map[string]*redlock.Mutex{
		"clients is empty":    redlock.New(nil, "a"),
		"clients[1] is nil":   redlock.New([]*holdfast.Client{p.clients[0], nil}, "a"),
		"are the same":        redlock.New(twice, "a"),
		"MasterTimeout is 0s": p.mutex("a", redlock.MasterTimeout(0)),
		"is trusted for":      p.mutex("a", redlock.MasterTimeout(time.Second), holdfast.Lease(time.Second)),
		"zero Mutex":          {},
	} {
		tells(t, kindtest.Err(m.Lock(t.Context())), holdfast.ErrInvalid, what)
	}
	for _, m := range []*redlock.Mutex{nil, {}, redlock.New(nil, "a")} {
		_, state := m.State(t.Context())
		_, force := m.ForceUnlock(t.Context())
		require.ErrorIs(t, state, holdfast.ErrInvalid)
		require.ErrorIs(t, force, holdfast.ErrInvalid)
	}
	require.NoError(t, p.clients[0].Close(t.Context()))
	require.ErrorIs(t, kindtest.Err(p.mutex("a").ForceUnlock(t.Context())), holdfast.ErrClosed)
}

// Two clients that reach one server have two votes by one master.
func TestTwinsAreRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	for range 20 {
		a, b := l.process(nil), l.process(nil)
		m := redlock.New([]*holdfast.Client{a.clients[0], a.clients[1], b.clients[1]}, uniqueName(t))
		_, err := m.Lock(t.Context()) // the first one, when two of the three may have voted before the third
		tells(t, err, holdfast.ErrInvalid, "clients[1] and clients[2] reach the same server")
		eventually(t, "nothing is left", func() bool { return l.held(m.Name()) == 0 })
	}
}

// So they are where the clients have been used before, for locks of one of the masters.
func TestTwinsOfUsedClientsAreRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	for range 10 {
		a, b := l.process(nil), l.process(nil)
		clients := []*holdfast.Client{a.clients[0], a.clients[1], b.clients[1]}
		for _, c := range clients {
			unlock(t, lock(t, rlock.New(c, uniqueName(t))))
		}
		_, err := redlock.New(clients, uniqueName(t), redlock.TrustRestarts()).Lock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrInvalid)
	}
}

// An even number of masters is allowed. Half of them that refuse are enough to know that somebody else has the lock, whatever
// the others would say: it is no outage, and a wait goes on for longer than the retry budget.
func TestEvenNumberOfMasters(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 4} {
		l := newLab(t, n)
		a, b := l.process(nil), l.process(&holdfast.Options{RetryBudget: 300 * time.Millisecond})
		m := b.mutex(uniqueName(t))
		h := lock(t, a.mutex(m.Name()))
		eventually(t, "everywhere", func() bool { return l.held(m.Name()) == n })
		for range 10 {
			err := refused(t.Context(), t, m.TryLock)
			require.False(t, errors.Is(err, holdfast.ErrUnavailable), err)
		}
		refused(t.Context(), t, m.Lock, holdfast.Wait(600*time.Millisecond))
		unlock(t, h)
		require.NoError(t, lockOnce(t.Context(), m))
	}
}

// Another kind of lock of the name, at one master and by the same owner, is another lock: neither re-enters the other.
func TestAnotherKindOfTheName(t *testing.T) {
	t.Parallel()
	l, p := newProcess(t, 3)
	m := p.mutex(uniqueName(t), redlock.TrustRestarts()) // the masters are young, and one more may be somebody else's
	h := l.everywhere(m)
	single := rlock.New(p.clients[1], m.Name())
	refused(h.Context(), t, single.TryLock) // the master has granted it already
	unlock(t, h)
	eventually(t, "released", func() bool { return l.held(m.Name()) == 0 })
	h = lock(t, single)
	other := take(h.Context(), t, m.TryLock)
	unlock(t, other, h)
}

// TestLabelAtEachMaster: each master has the label of the client whose locks it grants, and nothing of it at the end.
func TestLabelAtEachMaster(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	p, nobody := l.process(&holdfast.Options{Label: "who"}), l.process(&holdfast.Options{Label: holdfast.NoLabel})
	for _, holder := range []*process{p, nobody} {
		h := lock(t, holder.mutex("a"))
		if holder == p {
			label := keys.Label(p.clients[0].ID())
			for _, rdb := range l.direct {
				eventually(t, "the label is written", func() bool { return rdb.Get(t.Context(), label).Val() == "who" })
				require.Positive(t, rdb.PTTL(t.Context(), label).Val())
			}
		}
		unlock(t, h)
	}
	for _, c := range append(p.clients, nobody.clients...) {
		require.NoError(t, c.Close(t.Context()))
	}
	for _, rdb := range l.direct {
		require.Empty(t, rdb.Keys(t.Context(), "holdfast_client*").Val())
	}
}

// The set of clients makes the lock, in whatever order they are: who holds it re-enters, others of
// the process queue behind, and the first client of the first list is whose Close ends the holds.
func TestOrderOfClients(t *testing.T) {
	t.Parallel()
	_, p := newProcess(t, 3)
	name, c := uniqueName(t), p.clients
	h := lock(t, p.mutex(name))
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		m := redlock.New([]*holdfast.Client{c[order[0]], c[order[1]], c[order[2]]}, name, redlock.MasterTimeout(p.timeout))
		inner, err := m.Lock(h.Context(), holdfast.Wait(patience))
		require.NoError(t, err, "%v", order)
		require.Equal(t, 2, inner.Count())
		require.Equal(t, h.Owner(), inner.Owner())
		unlock(t, inner)
		refused(t.Context(), t, m.TryLock)
	}
	unlock(t, h)
	other := redlock.New([]*holdfast.Client{c[2], c[1], c[0]}, name)
	h = lock(t, other)
	require.Regexp(t, "^"+c[0].ID()+":", h.Owner())
	require.NoError(t, c[0].Close(t.Context()))
	require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrClosed)
	unlock(t, lock(t, redlock.New([]*holdfast.Client{c[2], c[1], c[0]}, name)))
}

// A renewal that the masters execute behind the release finds nothing. That is the release's work, and no loss.
func TestReleaseOvertakesRenewal(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	a := l.process(nil)
	l.load(lua.Release, lua.Renew, lua.RenewMany)
	h, err := a.mutex(uniqueName(t), holdfast.Lease(3*time.Second),
		redlock.MasterTimeout(700*time.Millisecond)).Lock(t.Context())
	require.NoError(t, err)
	var renewals []*faultproxy.Rule
	for _, p := range a.proxies {
		renewals = append(renewals, p.DelayRequest(isRenewal, 1, 30*time.Millisecond))
		p.DelayReply(isRelease, 1, 60*time.Millisecond)
	}
	for _, r := range renewals {
		<-r.Fired()
	}
	require.NoError(t, h.Context().Err())
	unlock(t, h)
}

// TestCloseWithASilentMaster: a master is silent while a lock is unlocked, and until the client is
// closed. What is left there keeps nobody out, so Close has nothing to say.
func TestCloseWithASilentMaster(t *testing.T) {
	t.Parallel()
	l, p := newProcess(t, 3)
	h := l.everywhere(p.mutex(uniqueName(t), redlock.TrustRestarts(), redlock.MasterTimeout(2*time.Second)))
	p.proxies[2].Silence(true)
	unlock(t, h)
	require.NoError(t, p.clients[0].Close(t.Context()))
}

// Why masters do not answer is in the error, in its text and its chain: also to who has closed the go-redis clients first.
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
			tells(t, err, holdfast.ErrUnavailable, not(holdfast.ErrNotAcquired), "1 of 3 masters agreed, and 2 have to")
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
	a, b := l.process(nil), l.versed(&holdfast.Options{RetryBudget: 500 * time.Millisecond})
	name := uniqueName(t)
	h := l.everywhere(a.mutex(name, redlock.TrustRestarts()))
	for _, wait := range []holdfast.Option{holdfast.Wait(0), holdfast.Wait(time.Second)} {
		err := refused(t.Context(), t, b.mutex(name).Lock, wait)
		require.ErrorContains(t, err, "held by "+h.Owner()+", whose lease has ")
	}
	for _, i := range []int{0, 1} { // with two out of reach it still is
		b.proxies[i].Stop()
	}
	refused(t.Context(), t, b.mutex(name).TryLock)
	b.proxies[2].Stop()
	_, err := b.mutex(name).TryLock(t.Context())
	tells(t, err, holdfast.ErrUnavailable, not(holdfast.ErrNotAcquired), "0 of 5 masters agreed, and 3 have to")
	require.ErrorContains(t, err, "held by "+h.Owner())
	unlock(t, h)
}

// TestVoteOfTheDead: one master has the vote of an owner that is gone, one is out of reach, and one is free. Whether
// that owner has the lock is not known, as State says, and the error has what each master said.
func TestVoteOfTheDead(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	p := l.process(nil)
	m := p.mutex(uniqueName(t), redlock.TrustRestarts()) // else new masters do not vote for a lease
	require.NoError(t, lockOnce(t.Context(), m))
	eventually(t, "released", func() bool { return l.held(m.Name()) == 0 })
	l.give(0, m.Name(), "somebody:h1", time.Hour)
	p.proxies[1].Stop()
	require.ErrorIs(t, kindtest.Err(m.State(t.Context())), holdfast.ErrUnavailable)
	for i, acquire := range []kindtest.Acquire{m.TryLock, m.TryLock, m.Lock} {
		_, err := acquire(t.Context(), holdfast.Wait(2*time.Second))
		require.ErrorIs(t, err, holdfast.ErrUnavailable, "call %d", i)
		tells(t, err, not(holdfast.ErrNotAcquired), syscall.ECONNREFUSED, "of 3 masters agreed, and 2 have to; 1 (")
		require.ErrorContains(t, err, `): held by "somebody:h1"; 2 (`)
		require.Regexp(t, `\): (granted|not held)$`, err.Error()) // the second one does not ask for votes
	}
	p.proxies[1].Start()
	require.NoError(t, lockOnce(t.Context(), m), "a minority keeps nobody out")
}

// TestWhoAsksTheLeadLearnsThatMastersAreBack: callers who wait briefly ask the lead alone. It says who has the lock, but the others were
// out of reach when all were asked last. They are back, so that is no outage any more.
func TestWhoAsksTheLeadLearnsThatMastersAreBack(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	p := l.process(nil)
	m := p.mutex(uniqueName(t), redlock.TrustRestarts())
	require.NoError(t, lockOnce(t.Context(), m))
	eventually(t, "released", func() bool { return l.held(m.Name()) == 0 })
	for i := range 3 {
		l.give(i, m.Name(), "somebody:h1", time.Hour)
	}
	for i := range p.proxies[1:] {
		p.proxies[1+i].Stop()
	}
	lock := func(wait time.Duration) error { return kindtest.Err(m.Lock(t.Context(), holdfast.Wait(wait))) }
	require.ErrorIs(t, lock(2*time.Second), holdfast.ErrUnavailable)
	for i := range p.proxies[1:] {
		p.proxies[1+i].Start()
	}
	eventually(t, "no outage", func() bool { return !errors.Is(lock(5*time.Millisecond), holdfast.ErrUnavailable) })
}

// TestSlowMastersAreNotSilent: masters that decide answer, but later than MasterTimeout allows. That is no outage, and the error says
// what each of them did. The control: one of them is silent.
func TestSlowMastersAreNotSilent(t *testing.T) {
	t.Parallel()
	const stranger = "00000000-0000-4000-8000-000000000000:h1"
	l := newLab(t, 3)
	p := l.versed(nil)
	m := p.mutex(uniqueName(t), redlock.MasterTimeout(50*time.Millisecond), redlock.TrustRestarts())
	l.give(0, m.Name(), stranger, time.Hour)
	for _, proxy := range p.proxies[1:] {
		for nth := range 100 {
			proxy.DelayReply(isVote, nth+1, 300*time.Millisecond)
		}
	}
	wait := holdfast.Wait(700 * time.Millisecond)
	err := refused(t.Context(), t, m.Lock, wait)
	tells(t, err, not(holdfast.ErrUnavailable), "0 of 3 masters agreed, and 2 have to; 1 (", `): held by `+stranger+`; 2 (`, "no answer for ")

	p.proxies[1].Silence(true)
	eventually(t, "an outage", func() bool { return errors.Is(kindtest.Err(m.Lock(t.Context(), wait)), holdfast.ErrUnavailable) })
}

// TryLock asks a majority that is out of reach once, or twice where it does not take long.
func TestTryLockAndOutage(t *testing.T) {
	t.Parallel()
	eachOutage(t, func(t *testing.T, o outage) {
		l, p, m := newParty(t, 3, nil)
		require.NoError(t, lockOnce(t.Context(), m))
		o.on(l, p, 0)
		o.on(l, p, 1)
		before := p.proxies[2].Seen(isVote)
		require.ErrorIs(t, kindtest.Err(m.TryLock(t.Context())), holdfast.ErrUnavailable)
		n := p.proxies[2].Seen(isVote) - before
		require.Positive(t, n)
		require.LessOrEqual(t, n, 2, "elections")
		o.off(l, p, 0)
		o.off(l, p, 1)
	})
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

// What was refused a connection was not asked: an unlock that a majority never heard of has not happened there.
func TestRefusedConnectionIsNotUncertain(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	p := l.process(&holdfast.Options{RetryBudget: 300 * time.Millisecond})
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
	tells(t, err, holdfast.ErrUnavailable, "1 of 3 masters agreed, and 2 have to", not(holdfast.ErrUncertain))
}
