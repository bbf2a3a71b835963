//go:build unix

package faultproxy

import (
	"errors"
	"net"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReserve: who does not share a port with others does not get one that is reserved. The control is the port that was given up.
func TestReserve(t *testing.T) {
	alone := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0) })
		return errors.Join(failed, err)
	}}
	addr, release, err := reserve()
	require.NoError(t, err)
	_, err = alone.Listen(t.Context(), "tcp", addr)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	release()
	ln, err := alone.Listen(t.Context(), "tcp", addr)
	require.NoError(t, err)
	require.NoError(t, ln.Close())
}

// TestStopWhileProcessesStart: starting processes briefly have copies of all sockets, yet a proxy stops and starts.
func TestStopWhileProcessesStart(t *testing.T) {
	p, through, _ := setup(t)
	end := make(chan struct{})
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
					_ = exec.Command("true").Run()
				}
			}
		})
	}
	for range 1000 {
		p.Stop()
		p.Start()
	}
	close(end)
	group.Wait()
	require.NoError(t, incr(t.Context(), t, through))
}
