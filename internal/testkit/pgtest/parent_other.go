//go:build !linux

package pgtest

import "syscall"

// dieWithParent: only Linux can. Elsewhere a test binary that is killed leaves its processes
// behind.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
