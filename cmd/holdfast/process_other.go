//go:build !unix

package main

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Without process groups and signals all that can be done to a process is to end it.

func attributes(syscall.Signal) *syscall.SysProcAttr { return nil }

func (p *process) wait() (code int) {
	_ = p.cmd.Wait() // how it ended is in ProcessState
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(syscall.Signal) { _ = p.cmd.Process.Kill() }

func (p *process) groupLives() bool { return false }

func forwarded() []os.Signal { return []os.Signal{os.Interrupt} }

func dropped() []os.Signal { return nil }

// job is the command of "run". Here it is not stopped, knows no background, and is not guarded.
type job struct{ *process }

func newJob(cmd *exec.Cmd, _ time.Duration, _ func(format string, args ...any)) (*job, error) {
	p, err := launch(cmd, syscall.SIGTERM)
	return &job{p}, err
}

func (j *job) forward(sig syscall.Signal) { j.signal(sig) }

func (*job) halted(syscall.Signal) (say string, waits bool) { return "", false }

func (*job) resume() bool { return true }

func (*job) wasInterrupted() bool { return false }

func (*job) end() {}

func interruptGroup() {}

func endBy(syscall.Signal) {}

func guard(time.Duration) {}

func become(uintptr, string, []string) error { return nil }
