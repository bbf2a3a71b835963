//go:build !linux

package child

import "syscall"

// DieWithParent does nothing: only Linux can. Elsewhere a test binary that is killed leaves its processes behind.
func DieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
