package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
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
	l := newLab(t, 3)
	p := l.party(&holdfast.Options{RetryBudget: time.Minute})
	m := p.mutex(uniqueName(t))
	h := lock(t, m)
	recounts := faultproxy.Script(lua.Recount.Hash())
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
