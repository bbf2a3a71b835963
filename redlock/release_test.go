package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// A renewal that the masters execute behind the release finds nothing. That is the release's work,
// and no loss.
func TestReleaseOvertakesRenewal(t *testing.T) {
	l := newLab(t, 3)
	a := l.party(nil)
	for _, rdb := range l.direct {
		for _, s := range []*lua.Script{lua.Release, lua.Renew, lua.RenewMany} {
			require.NoError(t, rdb.ScriptLoad(t.Context(), s.Text()).Err())
		}
	}
	h, err := a.mutex(uniqueName(t), holdfast.Lease(3*time.Second),
		redlock.MasterTimeout(700*time.Millisecond)).Lock(t.Context())
	require.NoError(t, err)
	var renewals []*faultproxy.Rule
	for _, p := range a.proxies {
		renewals = append(renewals, p.DelayRequest(faultproxy.Script(lua.Renew.Hash()), 1, 30*time.Millisecond))
		p.DelayReply(faultproxy.Script(lua.Release.Hash()), 1, 60*time.Millisecond)
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
	l := newLab(t, 3)
	p := l.party(nil)
	h := l.everywhere(p.mutex(uniqueName(t), redlock.TrustRestarts(), redlock.MasterTimeout(2*time.Second)))
	p.proxies[2].Silence(true)
	unlock(t, h)
	require.NoError(t, p.clients[0].Close(t.Context()))
}
