//go:build unix

package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// signal sends to the whole group. An error would mean that nobody is left to get it.
func (p *process) signal(sig syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, sig)
}

// terminate asks the group to end, also if it is stopped: a stopped process does not see SIGTERM
// until it continues.
func (p *process) terminate() {
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT)
}

// groupLives says whether anybody of the group is left, the process itself aside if it has exited.
func (p *process) groupLives() bool {
	group := p.cmd.Process.Pid
	return !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) && !onlyZombies(group)
}

func endedBy(state *os.ProcessState) (syscall.Signal, bool) {
	status, ok := state.Sys().(syscall.WaitStatus)
	return status.Signal(), ok && status.Signaled()
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

// dropped are the signals that nobody gets: a holdfast stopped by Ctrl-Z would lose the lock while
// the command goes on. They are caught and not ignored, because what is ignored is ignored by the
// command too.
func dropped() []os.Signal { return []os.Signal{syscall.SIGTSTP} }
