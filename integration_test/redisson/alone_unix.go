//go:build unix

package redisson

import (
	"os"
	"syscall"
)

// alone waits until no other process has this file, and has it until it is closed.
func alone(lock *os.File) error { return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX) }
