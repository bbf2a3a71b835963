package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// stayed are ways in which masters come to keep a lock that stayed for its time for longer. Each
// gets the lock, with a long lease, and unlocks it.
var stayed = []struct {
	name string
	d    time.Duration
	kept int // masters
	do   func(l *lab, p *party, m *redlock.Mutex, opts ...holdfast.Option)
}{
	{"unlocked in an outage", 1500 * time.Millisecond, 3, unlockedInOutage},
	{"a late vote", 1500 * time.Millisecond, 1, votedLate},
}

func unlockedInOutage(l *lab, p *party, m *redlock.Mutex, opts ...holdfast.Option) {
	l.Helper()
	h, err := m.Lock(l.Context(), opts...)
	require.NoError(l, err)
	eventually(l.T, "all have granted it", func() bool { return l.held(m.Name()) == 3 })
	for _, proxy := range p.proxies {
		proxy.Stop()
	}
	require.ErrorIs(l, h.Unlock(l.Context()), holdfast.ErrUnavailable)
	for _, proxy := range p.proxies {
		proxy.Start()
	}
}

// votedLate has the network keep the vote of a master until the time is over.
func votedLate(l *lab, p *party, m *redlock.Mutex, opts ...holdfast.Option) {
	l.Helper()
	// tells the masters' clocks
	require.NoError(l, lockOnce(l.Context(), p.mutex(m.Name()+"before", redlock.TrustRestarts())))
	kept := p.proxies[2].KeepRequest(faultproxy.Script(lua.Vote.Hash()), 1, time.Hour)
	h, err := m.Lock(l.Context(), opts...)
	require.NoError(l, err)
	<-kept.Fired()
	require.NoError(l, h.Unlock(l.Context()))
	eventually(l.T, "its time is over", func() bool { return l.held(m.Name()) == 0 })
	p.proxies[2].Deliver()
}

// TestHoldAtLeastGivenBack: when its time is over a lock is given back that masters would keep for
// the rest of its lease. Not before.
func TestHoldAtLeastGivenBack(t *testing.T) {
	for _, s := range stayed {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 3)
			p := l.patient(&holdfast.Options{Lease: time.Hour, RetryBudget: time.Second}, 2*time.Second)
			m, start := p.mutex(uniqueName(t), redlock.TrustRestarts(), redlock.MasterTimeout(500*time.Millisecond)), time.Now()
			s.do(l, p, m, holdfast.HoldAtLeast(s.d))
			eventually(t, "given back", func() bool { return l.held(m.Name()) == 0 })
			require.GreaterOrEqual(t, time.Since(start), s.d)
		})
	}
}

// The control: nobody else ends it.
func TestHoldAtLeastGivenBackControl(t *testing.T) {
	t.Cleanup(defence.Undo.Without(t))
	for _, s := range stayed {
		t.Run(s.name, func(t *testing.T) {
			l := newLab(t, 3)
			p := l.patient(&holdfast.Options{Lease: time.Hour, RetryBudget: time.Second}, 2*time.Second)
			m := p.mutex(uniqueName(t), redlock.TrustRestarts(), redlock.MasterTimeout(500*time.Millisecond))
			s.do(l, p, m, holdfast.HoldAtLeast(s.d))
			for _, c := range p.clients {
				require.NoError(t, c.Close(t.Context())) // joins the background: nothing more will come
			}
			left := l.left(m.Name())
			require.Len(t, left, s.kept)
			require.Greater(t, left[0], time.Hour-time.Minute)
		})
	}
}
