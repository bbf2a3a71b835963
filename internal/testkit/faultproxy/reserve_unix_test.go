//go:build unix

package faultproxy

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAStoppedProxyKeepsItsPort: who asks for any port does not get it, as who does not share it with others. The
// control is the port that was given up.
func TestAStoppedProxyKeepsItsPort(t *testing.T) {
	p, _, _ := setup(t)
	p.Stop()
	alone := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0) })
		return errors.Join(failed, err)
	}}
	_, err := alone.Listen(t.Context(), "tcp", p.Addr())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	p.letGo()
	ln, err := alone.Listen(t.Context(), "tcp", p.Addr())
	require.NoError(t, err)
	require.NoError(t, ln.Close())
}
