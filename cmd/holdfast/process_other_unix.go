//go:build unix && !linux

package main

import "syscall"

func attributes(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// onlyZombies is not known here: the grace is waited for.
func onlyZombies(int) bool { return false }
