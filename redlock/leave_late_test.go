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

// afterLeave has a lock of a long lease left with little time while the vote of one master is on
// its way, which comes when the leaving has found nothing there. It returns for how long that
// master then keeps the lock.
func afterLeave(t *testing.T) (kept time.Duration) {
	t.Helper()
	l := newLab(t, 3)
	eventually(t, "a vote that was late, and yet executed", func() bool { // else it refuses itself, on a busy machine
		p := l.patient(&holdfast.Options{Lease: long}, time.Minute)
		for _, rdb := range l.direct {
			require.NoError(t, rdb.ScriptLoad(t.Context(), lua.Vote.Text()).Err()) // one request
			require.NoError(t, rdb.ScriptLoad(t.Context(), lua.Leave.Text()).Err())
		}
		m := p.mutex(uniqueName(t), redlock.MasterTimeout(100*time.Millisecond), redlock.TrustRestarts())
		late := p.proxies[2].DelayRequest(faultproxy.Script(lua.Vote.Hash()), 1, time.Hour)
		h, err := m.Lock(t.Context(), holdfast.HoldAtLeast(time.Minute))
		if err != nil { // a tenth of a second is short here
			late.Release()
			return false
		}
		<-late.Fired()
		unlock(t, h)
		eventually(t, "left", func() bool { return p.proxies[2].Seen(faultproxy.Script(lua.Leave.Hash())) > 0 })
		late.Release()
		for _, c := range p.clients {
			require.NoError(t, c.Close(t.Context())) // joins what is done in the background
		}
		kept = l.direct[2].PTTL(t.Context(), m.Name()).Val()
		return kept > 0
	})
	return kept
}

// A vote that comes to a master after the lock was left is left too.
func TestVoteAfterLeave(t *testing.T) {
	require.LessOrEqual(t, afterLeave(t), time.Minute+time.Second)

	// The control.
	t.Cleanup(defence.LeaveLate.Without(t))
	require.Greater(t, afterLeave(t), time.Minute+time.Second)
}
