//go:build unix

package faultproxy

import (
	"net"
	"syscall"
)

// reserve keeps a port that nobody listens on any more, so that connections to it are refused and the kernel gives it to
// nobody else, until release. Who asks for this very port gets it, since both allow that it is used again.
func reserve(addr *net.TCPAddr) (release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	release = func() { _ = syscall.Close(fd) }
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())})
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}
