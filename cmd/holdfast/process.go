package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// process is a child process in a process group of its own. The goroutine that started it waits for
// it; whoever receives from exited has joined that goroutine.
type process struct {
	cmd     *exec.Cmd
	ended   int                 // the exit code, as shells give it
	stopped chan syscall.Signal // what it was stopped by; what nobody has received stands for later ones
	exited  chan struct{}
}

// launch starts cmd. On Linux the kernel sends it the signal death when this process ends, however
// it ends.
//
// That signal is tied to the thread which started the child, not to the process, so the thread is
// kept for as long as the child lives.
func launch(cmd *exec.Cmd, death syscall.Signal) (*process, error) {
	return begin(cmd, attributes(death))
}

// begin is launch with attributes.
func begin(cmd *exec.Cmd, attr *syscall.SysProcAttr) (*process, error) {
	p := &process{cmd: cmd, stopped: make(chan syscall.Signal, 1), exited: make(chan struct{})}
	cmd.SysProcAttr = attr
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.exited)
		err := cmd.Start()
		started <- err
		if err == nil {
			p.ended = p.wait()
		}
	}()
	if err := <-started; err != nil {
		<-p.exited
		return nil, err
	}
	return p, nil
}

// kill ends the process group and waits for the process. A second call does nothing.
func (p *process) kill() {
	select {
	case <-p.exited:
	default:
		p.signal(syscall.SIGKILL)
		<-p.exited
	}
}

// code is the exit code as shells give it. The process must have exited.
func (p *process) code() int { return p.ended }
