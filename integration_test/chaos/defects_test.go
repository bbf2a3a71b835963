//go:build linux

package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// What chaos found, told again without chance.

// TestClosedUnderAnInnerUnlock: a client is closed while the unlock of an inner hold is on its way,
// which then finds the lock released. It was closed, and not lost.
func TestClosedUnderAnInnerUnlock(t *testing.T) {
	srv := redistest.Start(t)
	proxy := faultproxy.New(t, srv.Addr())
	c, err := holdfast.New(redistest.NewClient(t, proxy.Addr()), nil)
	require.NoError(t, err)
	m := rlock.New(c, "closed")
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	inner, err := m.Lock(h.Context())
	require.NoError(t, err)

	late := proxy.DelayRequest(faultproxy.Script(lua.Recount.Hash()), 1, time.Hour)
	unlocked := make(chan error)
	go func() { unlocked <- inner.Unlock(t.Context()) }()
	<-late.Fired()
	closed := make(chan error)
	go func() { closed <- c.Close(t.Context()) }() // which waits for the unlock, and releases before
	rdb := srv.Client(t)
	require.Eventually(t, func() bool { return rdb.Exists(t.Context(), m.Name()).Val() == 0 }, 20*time.Second,
		time.Millisecond)
	late.Release()
	err = <-unlocked
	require.NoError(t, <-closed)
	require.ErrorIs(t, err, holdfast.ErrClosed)
	require.NotErrorIs(t, err, holdfast.ErrLost)
}

// TestRefusedOnce: a waiter is refused the subscription that it needs. The next one, moments later,
// is not, because the server permits it again.
func TestRefusedOnce(t *testing.T) {
	srv := redistest.Start(t)
	holder, err := holdfast.New(srv.Client(t), nil)
	require.NoError(t, err)
	defer holder.Close(t.Context())
	h, err := fairlock.New(holder, "refused").Lock(t.Context())
	require.NoError(t, err)
	waiter, err := holdfast.New(srv.Client(t), nil)
	require.NoError(t, err)
	defer waiter.Close(t.Context())
	m := fairlock.New(waiter, "refused")

	srv.Command(t, "ACL", "SETUSER", "default", "-subscribe")
	_, err = m.Lock(t.Context())
	require.ErrorContains(t, err, "cannot listen")
	srv.Command(t, "ACL", "SETUSER", "default", "+subscribe")
	granted := make(chan error, 1)
	go func() {
		_, err := m.Lock(t.Context(), holdfast.Wait(20*time.Second))
		granted <- err
	}()
	require.Eventually(t, func() bool {
		s, err := m.State(t.Context())
		return err == nil && s.Waiters == 1 || len(granted) == 1
	}, 20*time.Second, time.Millisecond)
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, <-granted)
}
