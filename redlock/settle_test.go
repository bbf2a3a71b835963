package redlock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// contested has a party win a lock with two of three masters, while another client that asked in
// vain has the vote of the third one, which it gives back. The holder has joined that one when it
// returns.
func contested(t *testing.T) (l *lab, p *party, name string, h *holdfast.Hold) {
	t.Helper()
	l = newLab(t, 3)
	p = l.versed(&holdfast.Options{Lease: 6 * time.Second}) // a renewal is due after a third of that
	for _, rdb := range l.direct {
		require.NoError(t, rdb.ScriptLoad(t.Context(), lua.Renew.Text()).Err()) // each renewal is one request
	}
	name = uniqueName(t)
	m := p.mutex(name, redlock.TrustRestarts(), redlock.MasterTimeout(500*time.Millisecond)) // it settles for four of these
	require.NoError(t, lockOnce(t.Context(), m))                                             // the tokens are known
	eventually(t, "released", func() bool { return l.held(name) == 0 })

	const rival = "11111111-1111-1111-1111-111111111111:h7"
	third, token := l.direct[2], "redisson_lock_token:{"+name+"}"
	require.NoError(t, third.HSet(t.Context(), name, rival, 1).Err())
	require.NoError(t, third.PExpire(t.Context(), name, time.Hour).Err())
	require.NoError(t, third.IncrBy(t.Context(), token, 1000).Err())
	h = lock(t, m)
	require.NoError(t, third.HDel(t.Context(), name, rival).Err())
	eventually(t, "the third one has joined", func() bool { return l.held(name) == 3 })
	return l, p, name, h
}

// A hold that was won against somebody survives, a moment later, that another master forgets it.
func TestContestedHoldSettles(t *testing.T) {
	l, p, name, h := contested(t)
	eventually(t, "renewed with that one, and once more", func() bool {
		return !slices.ContainsFunc(p.proxies, func(proxy *faultproxy.Proxy) bool {
			return proxy.Seen(faultproxy.Script(lua.Renew.Hash())) < 3 // the one before was answered
		})
	})
	require.NoError(t, lapsed(l, name, h))
	unlock(t, h)
}

// lapsed has the first master forget a hold, and returns why the hold ended, or nil if that
// master joined again.
func lapsed(l *lab, name string, h *holdfast.Hold) error {
	lapses["flushed"](l, name, 0)
	eventually(l.T, "joined again", func() bool {
		_ = h.Extend(l.Context(), time.Second) // which asks all masters
		return l.held(name) == 3 || h.Context().Err() != nil
	})
	return context.Cause(h.Context())
}

// The control: what the others said last was before the third one counts as never lost. A busy
// machine may ask the others after the third one has joined, so that the hold survives by luck: it
// may not do so every time.
func TestContestedHoldSettlesControl(t *testing.T) {
	t.Cleanup(defence.Settle.Without(t))
	for range 5 {
		l, _, name, h := contested(t)
		err := lapsed(l, name, h)
		if err == nil {
			err = h.Unlock(t.Context()) // the first one may have joined again before the loss is known
		}
		if err != nil {
			require.ErrorIs(t, err, holdfast.ErrLost)
			return
		}
	}
	t.Fatal("the hold survives without the defence")
}
