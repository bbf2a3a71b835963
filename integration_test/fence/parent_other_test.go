//go:build !linux

package fence_test

import "syscall"

// dieWithParent: only Linux can. Elsewhere a test binary that is killed leaves its processes
// behind.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
