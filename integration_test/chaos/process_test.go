//go:build linux

package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// process is one client process as its parent sees it. One goroutine at a time uses it.
type process struct {
	number  int
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stderr  bytes.Buffer  // read only after ended
	ended   chan struct{} // closed when it is gone and its history is read
	ops     []history.Op
	err     error // of the history
	exit    error
	stopped int64 // since when it has been paused, 0: it runs
	killed  bool

	faults, pauses []history.Window // its own
}

// launch starts a client process.
func launch(j job) (*process, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	p := &process{number: j.Client, cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), jobEnv+"="+string(text))
	p.cmd.Stderr = &p.stderr
	// a paused one would not see the end of its input
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		p.ops, p.err = history.Read(out)
		p.exit = p.cmd.Wait()
	}()
	return p, nil
}

// command sends a line. A process that is gone does not matter here; its end is looked at later.
func (p *process) command(line string) { _, _ = fmt.Fprintln(p.stdin, line) }

func (p *process) pause() {
	p.stopped = now()
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
}

func (p *process) resume() {
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	w := history.Window{From: p.stopped, To: now()}
	p.pauses, p.faults = append(p.pauses, w), append(p.faults, w)
	p.stopped = 0
}

// hesitation is how late a process may run what it should have run, on a busy machine.
const hesitation = 1500 * time.Millisecond

// kill ends the process at once and adds that to its history. What it had not yet noticed when it
// died, such as the end of its trust, it may have been about to notice; so its crash began earlier,
// by the time that it may have needed for that, in which it was not paused.
func (p *process) kill() {
	p.killed = true
	at := now()
	if p.stopped != 0 {
		at = p.stopped
	}
	at = p.since(hesitation, at)
	_ = p.cmd.Process.Kill()
	<-p.ended
	p.ops = append(p.ops, history.Op{Client: p.number, Kind: history.Crash, Call: at, Return: now(),
		Result: history.OK})
}

// stop has the process unlock and close everything, and waits for it. What it did wrong in that is
// a violation.
func (p *process) stop() (found []history.Violation) {
	if p.killed {
		return nil
	}
	p.command("stop")
	_ = p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(40 * time.Second):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // it prints its goroutines
		<-p.ended
		return []history.Violation{{Check: "end", Text: fmt.Sprintf("client %d did not end\n%s", p.number, p.tail())}}
	}
	if p.exit != nil || p.err != nil {
		found = append(found, history.Violation{Check: "end", Text: fmt.Sprintf("client %d: %v, history: %v\n%s",
			p.number, p.exit, p.err, p.tail())})
	}
	return found
}

func (p *process) tail() string {
	b := p.stderr.Bytes()
	return string(b[:min(len(b), 6000)])
}
