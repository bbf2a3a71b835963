//go:build unix

package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// wait waits for the end of the process and returns its exit code. Meanwhile it tells of stops, of which
// [exec.Cmd.Wait] knows nothing.
func (p *process) wait() (code int) {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err == nil && status.Stopped():
			select {
			case p.stopped <- status.StopSignal():
			default:
			}
			continue
		}
		_ = p.cmd.Wait() // joins its goroutines; the process itself has been waited for
		if status.Signaled() {
			return exitSignal + int(status.Signal())
		}
		return status.ExitStatus()
	}
}

// group is the number of its process group.
func (p *process) group() int { return p.cmd.Process.Pid }

// signal sends to the whole group. An error would mean that nobody is left to get it.
func (p *process) signal(sig syscall.Signal) { _ = syscall.Kill(-p.group(), sig) }

// groupLives says whether anybody of the group is left, the process itself aside if it has exited.
func (p *process) groupLives() bool {
	return !errors.Is(syscall.Kill(-p.group(), 0), syscall.ESRCH) && !onlyZombies(p.group())
}

// forwarded are the signals that the command gets. One that was ignored when holdfast was started,
// as by nohup, stays ignored: to listen for it would undo that.
func forwarded() []os.Signal {
	var sigs []os.Signal
	for _, sig := range []syscall.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	} {
		if !signal.Ignored(sig) {
			sigs = append(sigs, sig)
		}
	}
	return sigs
}

// endBy ends this process by a signal that has ended its work. A shell gives the code 128 and the signal's number either
// way, but ends its loop or script after Ctrl-C only if what it ran has died by that, too.
func endBy(sig syscall.Signal) {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP: // for SIGQUIT Go prints all goroutines
		signal.Reset(sig)
		_ = syscall.Kill(syscall.Getpid(), sig)
		<-time.After(time.Second) // the signal comes before that, unless it is ignored
	}
}

// dropped are the signals that nobody gets: a holdfast stopped by Ctrl-Z would lose the lock while
// the command goes on. They are caught and not ignored, because what is ignored is ignored by the
// command too.
func dropped() []os.Signal { return []os.Signal{syscall.SIGTSTP} }
