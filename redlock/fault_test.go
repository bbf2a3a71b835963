package redlock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// nothingLeft waits until no master has a holder, and every key has an end.
func (l *lab) nothingLeft(name string) {
	l.Helper()
	eventually(l.T, "no master has a holder", func() bool { return l.held(name) == 0 })
	for _, rdb := range l.direct {
		for _, key := range rdb.Keys(context.Background(), "*").Val() {
			require.Positive(l, rdb.PTTL(context.Background(), key).Val(), "key %s has no time to live", key)
		}
	}
}

// Who leaves while the masters are asked again and again has an error that the attempts which go on
// meanwhile do not write to.
func TestLeavingWhileItFails(t *testing.T) {
	t.Parallel()
	_, p, m := newParty(t, 3, &holdfast.Options{RetryBudget: time.Minute})
	h := lock(t, m)
	recounts := kindtest.Script(lua.Recount)
	var later []*faultproxy.Rule
	for _, proxy := range p.proxies[:2] {
		for nth := range 3 { // whatever is sent twice because a connection may have been stale
			proxy.On(recounts, nth+1, faultproxy.DropRequest)
		}
		later = append(later, proxy.On(recounts, 4, faultproxy.BlackHole))
	}
	ctx, cancel := context.WithCancel(h.Context())
	result := begin(ctx, t, m.Lock)
	for _, r := range later {
		<-r.Fired()
	}
	cancel()
	err := result.Err()
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	text := err.Error()
	eventually(t, "it goes on", func() bool { return p.proxies[0].Seen(recounts) >= 5 })
	require.Equal(t, text, err.Error())
	unlock(t, h)
}

// minority has a lock refused because two masters of three are out of reach, and returns how many
// hold it then.
func minority(t *testing.T) (left int) {
	t.Helper()
	l := newLab(t, 3)
	p := l.party(&holdfast.Options{RetryBudget: 100 * time.Millisecond})
	m := p.mutex(uniqueName(t), redlock.MasterTimeout(patience)) // the budget is for those that refuse
	require.NoError(t, use(t.Context(), m))
	eventually(t, "released everywhere", func() bool { return l.held(m.Name()) == 0 })
	for _, proxy := range p.proxies[1:] {
		proxy.Stop()
	}
	_, err := m.Lock(t.Context())
	require.Error(t, err)
	return int(l.direct[0].Exists(t.Context(), m.Name()).Val())
}

// The votes of a minority are given back before the error is returned.
func TestMinorityIsGivenBack(t *testing.T) {
	require.Zero(t, minority(t))
	// The control.
	t.Cleanup(defence.Withdraw.Without(t))
	require.Equal(t, 1, minority(t))
}

// votes is how many votes a party has sent to its masters.
func (p *party) votes() (n int) {
	for _, proxy := range p.proxies {
		n += proxy.Seen(isVote)
	}
	return n
}

// In a process the lock goes from hand to hand: far fewer votes than grants, and tokens grow.
func TestHandOff(t *testing.T) {
	t.Parallel()
	l, p, m := newParty(t, 3, nil)
	require.NoError(t, use(t.Context(), m))
	before := p.votes()
	tokens := kindtest.Chain(t, m, 16, 50)
	require.IsIncreasing(t, tokens)
	require.Less(t, p.votes()-before, 3*16*50/2)
	before = p.votes()
	kindtest.Chain(t, p.mutex(m.Name(), holdfast.NoHandoff()), 4, 5)
	require.GreaterOrEqual(t, p.votes()-before, 2*4*5, "the control: each asks for itself")
	p.close(t)
	l.nothingLeft(m.Name())
}

// other has one process use the lock without end, and reports whether another one gets it.
func other(t *testing.T) bool {
	t.Helper()
	l := newLab(t, 3)
	a, b := l.party(nil), l.party(nil)
	name := uniqueName(t)
	stop := make(chan struct{})
	var grants atomic.Int64
	var g sync.WaitGroup
	for range 32 {
		g.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := lockOnce(context.Background(), a.mutex(name)); err != nil {
					t.Error(err)
					return
				}
				grants.Add(1)
			}
		})
	}
	defer func() { close(stop); g.Wait() }()
	eventually(t, "it is in use", func() bool { return grants.Load() > 1000 })
	h, err := b.mutex(name).Lock(t.Context(), holdfast.Wait(2*never))
	if err != nil {
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		return false
	}
	unlock(t, h)
	return true
}

// A process that hands the lock on gives it up when others want it.
func TestOthersGetTheirTurn(t *testing.T) {
	require.True(t, other(t))
	// The control: one that never looks keeps it.
	t.Cleanup(defence.Look.Without(t))
	t.Cleanup(defence.Reserved.Without(t)) // nor does it need tokens
	require.False(t, other(t))
}

// The lock is handed on while two of five masters fail, and a holder that lost it does not hand it
// on.
func TestHandOffAndOutage(t *testing.T) {
	t.Parallel()
	l, _, m := newParty(t, 5, &holdfast.Options{Lease: 6 * time.Second})
	require.NoError(t, use(t.Context(), m))
	l.masters[1].Pause()
	l.masters[4].Kill()
	require.IsIncreasing(t, kindtest.Chain(t, m, 8, 100))
	l.masters[1].Resume()
	require.IsIncreasing(t, kindtest.Chain(t, m, 8, 100))
}
