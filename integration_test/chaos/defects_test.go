//go:build linux

package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// What chaos found, told again without chance.

// TestClosedUnderAnInnerUnlock: a client is closed while the unlock of an inner hold is on its way, which then finds the
// lock released. It was closed, and not lost.
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
	require.NoError(t, c.Close(t.Context()))
	late.Release()
	err = <-unlocked
	require.ErrorIs(t, err, holdfast.ErrClosed)
	require.NotErrorIs(t, err, holdfast.ErrLost)
}
