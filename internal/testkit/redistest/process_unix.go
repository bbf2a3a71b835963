//go:build unix

package redistest

import "syscall"

// Halt stops a process, and GoOn lets it go on.
const (
	Halt = syscall.SIGSTOP
	GoOn = syscall.SIGCONT
)
