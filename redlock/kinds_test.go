package redlock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
)

// Another kind of lock of the name, at one of the masters and by the same owner, is another lock:
// neither is re-entered by the other.
func TestAnotherKindOfTheName(t *testing.T) {
	l := newLab(t, 3)
	p := l.party(nil)
	m := p.mutex(uniqueName(t), redlock.TrustRestarts()) // the masters are young, and one more may be somebody else's
	h := lock(t, m)
	eventually(t, "everywhere", func() bool { return l.held(m.Name()) == 3 })
	single := rlock.New(p.clients[1], m.Name())
	refused(h.Context(), t, single.TryLock) // the master has granted it already
	unlock(t, h)
	eventually(t, "released", func() bool { return l.held(m.Name()) == 0 })

	h = lock(t, single)
	other, err := m.TryLock(h.Context())
	require.NoError(t, err, "the other two have")
	unlock(t, other, h)
}
