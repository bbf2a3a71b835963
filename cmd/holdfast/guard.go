//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// guarding is a process that ends the group of a command if this process is killed. The kernel could tell the
// command alone, and only on Linux. The guard becomes a member of the group, so that the group's number is nobody
// else's while it is there.
type guarding struct {
	*process
	alive *os.File // closed by the kernel when this process ends, of which the guard learns by that
}

func startGuard(grace time.Duration) (*guarding, error) {
	self, err := self()
	if err != nil {
		return nil, err
	}
	in, alive, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	cmd := exec.Command(self, guardCommand, grace.String())
	cmd.Args[0] = "holdfast"
	cmd.Stdin = in
	p, err := begin(cmd, attributes(0)) // without a signal at the end of this process
	if err != nil {
		_ = alive.Close()
		return nil, err
	}
	return &guarding{p, alive}, nil
}

// join tells the guard its group. It need not be ready by then: it is sent no signal before it is a member.
func (g *guarding) join(group int) { _, _ = fmt.Fprintln(g.alive, group) }

// dismiss ends the guard, and nothing else.
func (g *guarding) dismiss() {
	select {
	case <-g.exited:
	default:
		_ = syscall.Kill(g.cmd.Process.Pid, syscall.SIGKILL)
		<-g.exited
	}
	_ = g.alive.Close()
}

// guard is what the guard does. It gets all that is sent to the group, and ignores what can be ignored.
func guard(grace time.Duration) {
	signal.Ignore()
	var group string
	_, _ = fmt.Fscanln(os.Stdin, &group)
	number, err := strconv.Atoi(group)
	if err != nil || syscall.Setpgid(0, number) != nil {
		return // there is no command, or no longer
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = syscall.Kill(0, syscall.SIGTERM)
	_ = syscall.Kill(0, syscall.SIGCONT)
	<-time.After(grace)
	_ = syscall.Kill(0, syscall.SIGKILL)
}
