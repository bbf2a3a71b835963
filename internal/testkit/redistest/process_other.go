//go:build !linux

package redistest

import (
	"os"
	"syscall"
)

func dieWithParent() *syscall.SysProcAttr { return nil }

func killAll(p *os.Process) error { return p.Kill() }

func stopped(int) bool { return true }
