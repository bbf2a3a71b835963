//go:build linux

package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// What chaos found, told again without chance.

// TestLossAndLockAgain: an owner that lost a lock takes it again. What is still sent to give the lost one back must not
// touch the new one.
func TestLossAndLockAgain(t *testing.T) {
	srv := redistest.Start(t)
	c, err := holdfast.New(srv.Client(t), nil)
	require.NoError(t, err)
	defer c.Close(t.Context())
	m := rlock.New(c, "again")
	owner := holdfast.WithOwner(t.Context())

	h, err := m.Lock(owner, holdfast.Lease(200*time.Millisecond), holdfast.NoRenewal())
	require.NoError(t, err)
	<-h.Context().Done()
	require.ErrorIs(t, h.Unlock(owner), holdfast.ErrLost)
	h, err = m.Lock(owner)
	require.NoError(t, err)
	require.Never(t, func() bool {
		s, err := m.State(t.Context())
		return err != nil || s.Owner != h.Owner()
	}, 2*time.Second, 10*time.Millisecond, "the server does not know the holder any more")
	require.NoError(t, h.Unlock(t.Context()))
}
