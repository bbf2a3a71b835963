//go:build !unix

package main

import (
	"os"
	"syscall"
)

// Without process groups and signals all that can be done to a process is to end it.

func attributes(syscall.Signal) *syscall.SysProcAttr { return nil }

func (p *process) signal(syscall.Signal) { _ = p.cmd.Process.Kill() }

func (p *process) terminate() { _ = p.cmd.Process.Kill() }

func (p *process) groupLives() bool { return false }

func endedBy(*os.ProcessState) (syscall.Signal, bool) { return 0, false }

func forwarded() []os.Signal { return []os.Signal{os.Interrupt} }

func dropped() []os.Signal { return nil }
