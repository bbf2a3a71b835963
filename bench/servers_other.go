//go:build !linux

package main

import "syscall"

// dieWithParent: only Linux can. Elsewhere a benchmark that is killed leaves its servers behind.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }
