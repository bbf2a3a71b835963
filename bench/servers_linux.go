package main

import "syscall"

// dieWithParent makes the kernel kill a server when the benchmark ends, also by SIGKILL, where no
// cleanup runs.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}
