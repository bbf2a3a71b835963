//go:build unix && !linux

package main

import (
	"os"
	"syscall"
)

func attributes(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func renewDeath(syscall.Signal) error { return nil }

func self() (string, error) { return os.Executable() }

// onlyZombies is not known here: the grace is waited for.
func onlyZombies(int) bool { return false }
