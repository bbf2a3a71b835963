package redlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestInput(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	p := l.party(nil)
	twice := []*holdfast.Client{p.clients[0], p.clients[1], p.clients[0]}
	for what, m := range map[string]*redlock.Mutex{
		"clients is empty":    redlock.New(nil, "a"),
		"clients[1] is nil":   redlock.New([]*holdfast.Client{p.clients[0], nil}, "a"),
		"are the same":        redlock.New(twice, "a"),
		"MasterTimeout is 0s": p.mutex("a", redlock.MasterTimeout(0)),
		"is trusted for":      p.mutex("a", redlock.MasterTimeout(time.Second), holdfast.Lease(time.Second)),
		"zero Mutex":          {},
	} {
		_, err := m.Lock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrInvalid)
		require.ErrorContains(t, err, what)
	}
	for _, m := range []*redlock.Mutex{nil, {}, redlock.New(nil, "a")} {
		_, state := m.State(t.Context())
		_, force := m.ForceUnlock(t.Context())
		require.ErrorIs(t, state, holdfast.ErrInvalid)
		require.ErrorIs(t, force, holdfast.ErrInvalid)
	}
	require.NoError(t, p.clients[0].Close(t.Context()))
	_, err := p.mutex("a").ForceUnlock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrClosed)
}

// Two clients that reach one server have two votes by one master.
func TestTwinsAreRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	a, b := l.party(nil), l.party(nil)
	m := redlock.New([]*holdfast.Client{a.clients[0], a.clients[1], b.clients[1]}, uniqueName(t))
	_, err := m.Lock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	require.ErrorContains(t, err, "clients[1] and clients[2] reach the same server")
	eventually(t, "nothing is left", func() bool { return l.held(m.Name()) == 0 })
}

// An even number of masters is allowed. Half of them that refuse are enough to know that somebody
// else has the lock, whatever the others would say: it is no outage, and a wait goes on for longer
// than the retry budget.
func TestEvenNumberOfMasters(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 4} {
		l := newLab(t, n)
		a, b := l.party(nil), l.party(&holdfast.Options{RetryBudget: 300 * time.Millisecond})
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

// Another kind of lock of the name, at one of the masters and by the same owner, is another lock:
// neither is re-entered by the other.
func TestAnotherKindOfTheName(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	p := l.party(nil)
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

// TestLabelAtEachMaster: each master is told who its client is, and told nothing any more at the end.
func TestLabelAtEachMaster(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	p, nobody := l.party(&holdfast.Options{Label: "who"}), l.party(nil)
	for _, holder := range []*party{p, nobody} {
		h := lock(t, holder.mutex("a"))
		if holder == p {
			for i, c := range p.clients {
				eventually(t, "the label is written", func() bool {
					return l.direct[i].Get(t.Context(), keys.Label(c.ID())).Val() == "who"
				})
				require.Positive(t, l.direct[i].PTTL(t.Context(), keys.Label(c.ID())).Val())
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
	l := newLab(t, 3)
	p := l.party(nil)
	name, c := uniqueName(t), p.clients
	h := lock(t, redlock.New(c, name))
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		m := redlock.New([]*holdfast.Client{c[order[0]], c[order[1]], c[order[2]]}, name)
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

// A renewal that the masters execute behind the release finds nothing. That is the release's work,
// and no loss.
func TestReleaseOvertakesRenewal(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	a := l.party(nil)
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
	l := newLab(t, 3)
	p := l.party(nil)
	h := l.everywhere(p.mutex(uniqueName(t), redlock.TrustRestarts(), redlock.MasterTimeout(2*time.Second)))
	p.proxies[2].Silence(true)
	unlock(t, h)
	require.NoError(t, p.clients[0].Close(t.Context()))
}
