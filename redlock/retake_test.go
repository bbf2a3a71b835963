package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
)

// lateWord has a party hold a lock, which is renewed once: master 0 executes that only after the
// others have, and has lost the hold by then. It returns when that master's answer is on its way.
// Its votes until then are counted.
func lateWord(t *testing.T) (l *lab, p *party, name string, h *holdfast.Hold, votes int) {
	t.Helper()
	l = newLab(t, 3)
	p = l.patient(&holdfast.Options{Lease: 6 * time.Second}, time.Minute)
	for _, rdb := range l.direct {
		require.NoError(t, rdb.ScriptLoad(t.Context(), lua.Renew.Text()).Err()) // each renewal is one request
	}
	name = uniqueName(t)
	h = lock(t, p.mutex(name))
	eventually(t, "everywhere", func() bool { return l.held(name) == 3 })
	late := p.proxies[0].DelayRequest(faultproxy.Script(lua.Renew.Hash()), 1, time.Hour)
	won := h.Deadline()
	eventually(t, "the others have renewed it", func() bool { return h.Deadline().After(won) })
	require.NoError(t, h.Extend(t.Context(), time.Hour)) // the next renewal is in twenty minutes
	<-late.Fired()
	require.NoError(t, l.direct[0].Del(t.Context(), name).Err())
	l.masters[0].ResetStats(t)
	votes = p.proxies[0].Seen(faultproxy.Script(lua.Vote.Hash()))
	late.Release()
	return l, p, name, h, votes
}

// A master that says only after the others have renewed a hold that it has forgotten it is asked at
// once to take it back.
func TestLateWordOfALoss(t *testing.T) {
	l, _, name, h, _ := lateWord(t)
	eventually(t, "taken back", func() bool { return l.direct[0].HExists(t.Context(), name, h.Owner()).Val() })
	require.Greater(t, l.direct[0].PTTL(t.Context(), name).Val(), time.Minute, "for as long as the others hold it")
	require.NoError(t, h.Context().Err())
	unlock(t, h)

	// The control: what nobody waits for is noted alone, and the master is asked a third of a lease
	// later.
	t.Cleanup(defence.Retake.Without(t))
	l, p, name, h, votes := lateWord(t)
	eventually(t, "it has said so", func() bool { return l.masters[0].CommandCalls(t)["evalsha"] > 0 })
	for range 200 { // by then that was heard too
		require.NoError(t, p.rdbs[0].Ping(t.Context()).Err())
	}
	for _, c := range p.clients {
		require.NoError(t, c.Close(t.Context())) // which waits for all that it has begun
	}
	require.Equal(t, votes, p.proxies[0].Seen(faultproxy.Script(lua.Vote.Hash())))
	require.False(t, l.direct[0].HExists(t.Context(), name, h.Owner()).Val())
}
