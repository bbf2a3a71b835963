package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

// TestHoldAtLeast: every master keeps the lock for its time, whether the hold is unlocked or its client closed, and one master that is
// out of reach meanwhile does not change that.
func TestHoldAtLeast(t *testing.T) {
	for _, how := range []string{"unlocked", "closed", "unlocked without one master"} {
		t.Run(how, func(t *testing.T) {
			l := newLab(t, 3)
			p := l.party(nil)
			m := p.mutex(uniqueName(t), holdfast.TrustRestarts())
			h, err := m.Lock(t.Context(), holdfast.HoldAtLeast(time.Hour))
			require.NoError(t, err)
			eventually(t, "all have granted it", func() bool { return l.held(m.Name()) == 3 })
			switch how {
			case "closed":
				require.NoError(t, p.clients[0].Close(t.Context()))
			case "unlocked without one master":
				p.proxies[1].Silence(true)
				require.NoError(t, h.Unlock(t.Context()))
				p.proxies[1].Silence(false)
			default:
				require.NoError(t, h.Unlock(t.Context()))
			}
			for _, c := range p.clients {
				require.NoError(t, c.Close(t.Context())) // joins what is done in the background
			}
			require.Equal(t, 3, l.held(m.Name()))
			for _, rdb := range l.direct {
				require.Greater(t, rdb.PTTL(t.Context(), m.Name()).Val(), time.Hour-time.Minute)
			}
			_, err = l.party(nil).mutex(m.Name(), holdfast.TrustRestarts()).TryLock(t.Context())
			require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		})
	}
}
