package pgtest

import "syscall"

// dieWithParent makes the kernel send a signal when the test binary ends, also by a panic or
// -timeout, where no cleanup runs.
func dieWithParent(attr *syscall.SysProcAttr, death syscall.Signal) { attr.Pdeathsig = death }
