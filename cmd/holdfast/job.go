//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// job is the command of "run" in a process group of its own, which can be ended as a whole. As with a shell
// that group has the terminal while the command runs, if this process had it. (Rejected: the group of this
// process, as under flock(1). The rest of a pipeline is in that.)
type job struct {
	*process
	guard *guarding // nil: there is none
	tty   int       // the controlling terminal; -1: there is none
	own   int       // the process group of this process
	gave  bool      // the job has the terminal, or had it
	asked bool      // it was sent a signal other than by the terminal
}

// newJob starts a command. In a pipeline it gets the terminal only when it wants it, since others there may want it
// too, as a pager does.
func newJob(cmd *exec.Cmd, grace time.Duration, say func(format string, args ...any)) (*job, error) {
	j := &job{own: syscall.Getpgrp(), tty: -1}
	if fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0); err == nil {
		j.tty = fd
	}
	attr := attributes(syscall.SIGTERM)
	if j.gave = j.front() == j.own && !isPipe(os.Stdin) && !isPipe(os.Stdout); j.gave {
		attr.Foreground, attr.Ctty = true, j.tty
	}
	if err := j.begin(cmd, attr, grace, say); err != nil {
		j.end()
		return nil, err
	}
	if j.tty >= 0 {
		// This process is in the background now. It would be stopped when it takes the terminal back, and, after
		// "stty tostop", when it writes. Not ignored before, because the command would ignore it too.
		signal.Ignore(syscall.SIGTTOU)
	}
	return j, nil
}

// begin begins the command, with a guard if there can be one.
func (j *job) begin(cmd *exec.Cmd, attr *syscall.SysProcAttr, grace time.Duration, say func(string, ...any)) (err error) {
	const unguarded = "no guard, so if holdfast is killed, the command goes on without the lock: %v"
	if j.guard, err = startGuard(grace); err != nil {
		say(unguarded, err)
		j.process, err = begin(cmd, attr)
		return err
	}
	joined := false
	if j.process, joined, err = j.guard.begin(cmd, attr); err == nil && !joined {
		say(unguarded, "it has ended")
	}
	return err
}

func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}

// front is the process group that has the terminal; 0 if there is none.
func (j *job) front() int {
	if j.tty < 0 {
		return 0
	}
	group, err := unix.IoctlGetInt(j.tty, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

func (j *job) setForeground(group int) { _ = unix.IoctlSetPointerInt(j.tty, unix.TIOCSPGRP, group) }

// forward sends a signal to the group, also if it is stopped: then it does not see the signal until it goes on. One that
// does not ask it to end waits for that.
func (j *job) forward(sig syscall.Signal) {
	j.asked = true
	j.signal(sig)
	if sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 {
		j.signal(syscall.SIGCONT)
	}
}

// halted deals with a stop of the command. It returns what to say about that, and whether the command waits until this
// process is in the foreground.
func (j *job) halted(by syscall.Signal) (say string, waits bool) {
	switch {
	case j.tty >= 0 && (by == syscall.SIGTTIN || by == syscall.SIGTTOU):
		if j.resume() {
			return "", false
		}
		return "the command waits for the terminal, and keeps the lock: holdfast is in the background. Bring it to the " +
			"foreground, or end it with SIGTERM", true
	case by == syscall.SIGTSTP && j.front() == j.group():
		j.signal(syscall.SIGCONT)
		return "the command goes on: it cannot be suspended while it has the lock", false
	}
	return fmt.Sprintf(`the command was stopped by a signal (%s), and keeps the lock. It goes on after "kill -CONT -%d"; `+
		"SIGTERM to holdfast ends it", unix.SignalName(by), j.group()), false
}

// resume has a command go on that waits for the terminal. It reports whether it could: the terminal is for this process
// to give only while this process is in the foreground.
func (j *job) resume() bool {
	switch j.front() {
	case j.own:
		j.gave = true
		j.setForeground(j.group())
	case j.group():
	default:
		return false
	}
	j.signal(syscall.SIGCONT)
	return true
}

// wasInterrupted reports whether the command was ended by Ctrl-C, in all likelihood.
func (j *job) wasInterrupted() bool {
	return j.gave && !j.asked && j.code() == exitSignal+int(syscall.SIGINT)
}

// interruptGroup has Ctrl-C, of which only the group of the command heard, end also the group of this process: the script or
// the loop that it is a part of.
func interruptGroup() {
	_ = syscall.Kill(0, syscall.SIGINT)
	<-time.After(time.Second) // the signal comes before that, unless it is ignored
}

// end takes the terminal back and ends the guard. What the command has left behind stays. A second call does nothing.
func (j *job) end() {
	if j.tty >= 0 {
		signal.Ignore(syscall.SIGTTOU)
		if j.gave {
			j.setForeground(j.own)
		}
		signal.Reset(syscall.SIGTTOU)
		_ = unix.Close(j.tty)
		j.tty = -1
	}
	if j.guard != nil {
		j.guard.dismiss()
		j.guard = nil
	}
}
