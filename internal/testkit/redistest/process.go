package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	pollEvery = 2 * time.Millisecond
	patience  = 10 * time.Second // for anything a healthy server does within a second, on a machine that is busy
)

// process is one run of a server. The goroutine that reaps it is owned by the process and joined by
// kill.
type process struct {
	cmd    *exec.Cmd
	log    *os.File
	exited chan struct{} // closed by the reaper
}

// spawn starts a server with its output in dir/server.log. env is added to the environment.
func spawn(bin, dir string, env []string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, "server.log"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(bin, args...), log: log, exited: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log // files, so that exec needs no copying goroutine
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = dieWithParent()
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // killed is its usual end
	}()
	return p, nil
}

// kill ends the process, stopped or not, and waits for it. A second call does nothing.
func (p *process) kill() {
	select {
	case <-p.exited:
	default:
		_ = p.cmd.Process.Kill() // fails only when it is gone already
		<-p.exited
	}
	_ = p.log.Close()
}

func (p *process) signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// output is the tail of the log.
func (p *process) output() string {
	b, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}

// ready waits until the process answers on addr. That it is this process and not another server
// which took the port in between is known by its pid.
func (p *process) ready(addr string) error {
	var last error
	ok := Within(patience, func() bool {
		select {
		case <-p.exited:
			last = errors.New("it exited")
			return true
		default:
		}
		var info string
		if info, last = text(call(addr, "INFO", "server")); last != nil {
			return false
		}
		if got := InfoField(info, "process_id"); got != strconv.Itoa(p.cmd.Process.Pid) {
			last = fmt.Errorf("process %s answers instead", got)
		}
		return true
	})
	if !ok && last == nil {
		last = errors.New("no answer")
	}
	if last != nil {
		return fmt.Errorf("server on %s did not start: %w; its log:\n%s", addr, last, p.output())
	}
	return nil
}

// freePort asks the kernel for a port. Another process may take it before the server does, so
// callers try again.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Within polls cond until it is true or the time is up, and returns the last answer.
func Within(limit time.Duration, cond func() bool) bool {
	if cond() {
		return true
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		<-tick.C
		if cond() {
			return true
		}
	}
	return false
}

// InfoField is the value of "name:value" in an answer of INFO, empty if there is none.
func InfoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
