//go:build unix && !linux

package main

import "syscall"

func attributes(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
