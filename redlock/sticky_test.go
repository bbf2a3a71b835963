package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
)

// restartBehindProxy has a party hold a lock by three masters of five, one of which is started anew
// without its data, and another party, whose proxies keep its connections over that, try. It
// returns what became of that.
func restartBehindProxy(t *testing.T) error {
	t.Helper()
	l := newClockLab(t, 5)
	opts := &holdfast.Options{Lease: 3 * time.Second, RetryBudget: 300 * time.Millisecond}
	a, b := l.party(opts), l.party(opts)
	for _, proxy := range b.proxies {
		proxy.KeepConnections()
	}
	for _, m := range l.masters {
		m.MoveClock(t, time.Minute) // they are older than a lease
	}
	require.NoError(t, lockOnce(t.Context(), b.mutex("other")))
	for _, i := range []int{3, 4} {
		a.proxies[i].Stop()
	}
	name := uniqueName(t)
	h := lock(t, a.mutex(name))
	l.masters[2].Restart()
	second, err := b.mutex(name).TryLock(t.Context())
	if err == nil {
		unlock(t, second)
	}
	_ = h.Unlock(t.Context())
	return err
}

// A restart is noticed also where a proxy keeps the connections: the master's run is asked with its
// vote.
func TestRestartBehindProxy(t *testing.T) {
	err := restartBehindProxy(t)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired, "two masters have the lock, and the third one does not count")

	// The control: who asks for it where a connection was made does not notice.
	t.Cleanup(defence.Heard.Without(t))
	require.NoError(t, restartBehindProxy(t))
}
