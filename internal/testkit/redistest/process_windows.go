package redistest

import "syscall"

// Halt stops a process, and GoOn lets it go on. Windows has no such signals: to send one is an error, which the test reports.
const (
	Halt = syscall.Signal(19)
	GoOn = syscall.Signal(18)
)
