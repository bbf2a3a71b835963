//go:build unix

package faultproxy

import (
	"net"
	"strconv"
	"syscall"
)

// reserve has the kernel choose a port on this machine, and give it to nobody else until release. Connections to it are refused
// while nobody listens. Who asks for this very port gets it, since both allow that it is used again.
//
// It is reserved before anybody listens, and not when that ends: a process that is being started has a copy of the listener for a
// moment, in which the port cannot be reserved.
func reserve() (addr string, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return "", nil, err
	}
	syscall.CloseOnExec(fd)
	release = func() { _ = syscall.Close(fd) }
	var bound syscall.Sockaddr
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		if err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err == nil {
			bound, err = syscall.Getsockname(fd)
		}
	}
	if err != nil {
		release()
		return "", nil, err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*syscall.SockaddrInet4).Port)), release, nil
}
