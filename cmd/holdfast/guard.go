//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guarding is a process that ends the group of a command if this process is killed. The kernel could tell the
// command alone, and only on Linux. The guard becomes a member of the group, so that the group's number is nobody
// else's while it is there.
type guarding struct {
	*process
	alive  *os.File  // closed by the kernel when this process ends, of which the guard learns by that
	joined io.Reader // gets a byte when the guard is a member of the group, or ends
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
	joined, err := cmd.StdoutPipe()
	if err != nil {
		_ = alive.Close()
		return nil, err
	}
	p, err := begin(cmd, attributes(0)) // without a signal at the end of this process
	if err != nil {
		_ = alive.Close()
		return nil, err
	}
	return &guarding{p, alive, joined}, nil
}

// begin begins a command that leads its group, and has the guard join that before the command runs. The number of a group
// is known only when there is a process in it. So this program is that process, and waits, until it becomes the command.
// (Rejected: to begin the command in the group of the guard. One that does not lead its group can leave it, as timeout(1)
// and shells with job control do.)
func (g *guarding) begin(cmd *exec.Cmd, attr *syscall.SysProcAttr) (p *process, joined bool, err error) {
	in, release, err := os.Pipe()
	if err != nil {
		return nil, false, err
	}
	defer in.Close()
	defer release.Close()
	// It keeps its number, which is free there, too. (Rejected: cmd.ExtraFiles. It begins with 3, which this process may have
	// been given for the command.)
	fd := in.Fd()
	if _, err = unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil {
		return nil, false, err
	}
	cmd.Args = append([]string{"holdfast", becomeCommand, strconv.Itoa(int(fd)), cmd.Path}, cmd.Args...)
	cmd.Path = g.cmd.Path
	if p, err = begin(cmd, attr); err != nil {
		return nil, false, err
	}
	_, _ = fmt.Fprintln(g.alive, p.group())
	n, _ := g.joined.Read(make([]byte, 1))
	_, _ = release.Write([]byte{0})
	return p, n == 1, nil
}

// become is what a process does before it is the command.
func become(fd uintptr, path string, argv []string) error {
	released := os.NewFile(fd, "released")
	if n, _ := released.Read(make([]byte, 1)); n == 0 {
		return nil // holdfast was killed
	}
	_ = released.Close()
	runtime.LockOSThread()
	err := renewDeath(syscall.SIGTERM)
	if err == nil {
		err = syscall.Exec(path, argv, os.Environ())
	}
	return fail(exitCannot, "cannot execute %s: %w", argv[0], err)
}

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
	_, _ = os.Stdout.Write([]byte{0})
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = syscall.Kill(0, syscall.SIGTERM)
	_ = syscall.Kill(0, syscall.SIGCONT)
	<-time.After(grace)
	_ = syscall.Kill(0, syscall.SIGKILL)
}
