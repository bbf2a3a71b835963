package fence_test

import "syscall"

// dieWithParent makes the kernel end the server when the test binary ends, also by a panic or -timeout, where no cleanup runs.
// SIGQUIT, because that takes the server's children with it.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
