package rlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
)

// lateRenewal has an owner lock and unlock while the network keeps a renewal or an extension, and
// lock again for a shorter time. It returns by how much the second lease is longer than was asked
// for when that request has come to the server.
func lateRenewal(t *testing.T, extend bool) time.Duration {
	t.Helper()
	p := newProxied(t, &holdfast.Options{RetryBudget: 100 * time.Millisecond})
	ctx := holdfast.WithOwner(t.Context())
	require.NoError(t, p.direct.ScriptLoad(t.Context(), lua.Renew.Text()).Err())
	kept := p.proxy.DelayRequest(faultproxy.Script(lua.Renew.Hash()), 1, time.Hour)
	lease := time.Minute
	if !extend {
		lease = 3 * time.Second
	}
	h := take(ctx, t, p.mutex.Lock, holdfast.Lease(lease))
	if extend {
		require.ErrorIs(t, h.Extend(t.Context(), time.Minute), holdfast.ErrUncertain)
	}
	<-kept.Fired()
	unlock(t, h)

	again := take(ctx, t, p.mutex.Lock, holdfast.Lease(lease/2), holdfast.NoRenewal())
	before := p.srv.CommandCalls(t)["hexists"] // the script's question whose the lock is
	kept.Release()
	eventually(t, "it has come", func() bool { return p.srv.CommandCalls(t)["hexists"] > before })
	left := p.direct.PTTL(t.Context(), "a").Val()
	unlock(t, again)
	return left - lease/2
}

// TestLateRenewal: what the network keeps of one lease does not lengthen the next one of the same
// owner.
func TestLateRenewal(t *testing.T) {
	for _, extend := range []bool{false, true} {
		require.LessOrEqual(t, lateRenewal(t, extend), time.Duration(0))
	}

	// The control: the owner has the same id again.
	t.Cleanup(defence.FreshOwner.Without(t))
	for _, extend := range []bool{false, true} {
		require.Positive(t, lateRenewal(t, extend))
	}
}
