package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/lua"
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
	require.ErrorIs(t, err, context.Canceled)
	text := err.Error()
	eventually(t, "it goes on", func() bool { return p.proxies[0].Seen(recounts) >= 5 })
	require.Equal(t, text, err.Error())
	unlock(t, h)
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
