package child

import "syscall"

// DieWithParent makes the kernel send a signal when the test binary ends, also by a panic or -timeout, where no cleanup runs.
func DieWithParent(attr *syscall.SysProcAttr, death syscall.Signal) { attr.Pdeathsig = death }
