package redistest

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// dieWithParent makes the kernel kill the server when the test binary ends, also by a panic, -timeout or SIGKILL, where no
// cleanup runs. (The signal is tied to the thread that started the server; Go keeps its threads.)
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// killAll kills a server with its child, which writes a snapshot or an AOF into a directory that is about to be removed.
func killAll(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }

// stopped says whether SIGSTOP has taken effect: the signal is delivered some microseconds after kill returns.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(stat, []byte(") ")) // "pid (name) S ...", and no server has ") " in its name
	return len(rest) > 0 && rest[0] == 'T'
}
