// Package child is for processes that tests start, which end with the test or the test binary and report in lines.
package child

import (
	"bufio"
	"cmp"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long a line is waited for, on however busy a machine.
const patience = time.Minute

// Process is one with which a test talks in lines.
type Process struct {
	testing.TB
	Cmd   *exec.Cmd
	Lines chan string // what it has said, and nobody has read; closed when it has ended
	in    io.Writer
}

// Start starts a process, whose stderr is the test's unless the command has one. It is killed at the end of the test.
func Start(tb testing.TB, cmd *exec.Cmd) *Process {
	p := &Process{TB: tb, Cmd: cmd, Lines: make(chan string, 1000)}
	cmd.Stderr = cmp.Or[io.Writer](cmd.Stderr, os.Stderr)
	in, err := cmd.StdinPipe()
	require.NoError(tb, err)
	out, err := cmd.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, cmd.Start())
	p.in = in
	go func() {
		defer close(p.Lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.Lines <- s.Text()
		}
	}()
	tb.Cleanup(p.Kill)
	return p
}

// Says returns the next line.
func (p *Process) Says() string {
	p.Helper()
	select {
	case line, ok := <-p.Lines:
		require.True(p, ok, "%s has ended", p.Cmd.Path)
		return line
	case <-time.After(patience):
		p.Fatalf("%s says nothing", p.Cmd.Path)
		return ""
	}
}

// Told gives it a line of input.
func (p *Process) Told(line string) {
	_, err := io.WriteString(p.in, line+"\n")
	require.NoError(p, err)
}

// Ends waits until it has ended by itself, or as told by signals, and returns what else it said.
func (p *Process) Ends(signals ...os.Signal) (rest []string) {
	for _, s := range signals {
		require.NoError(p, p.Cmd.Process.Signal(s))
	}
	for line := range p.Lines {
		rest = append(rest, line)
	}
	require.NoError(p, p.Cmd.Wait(), "%s: exit code", p.Cmd.Path)
	return rest
}

// Kill kills it, if it runs still, and returns when it is gone. What it said is forgotten.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	for range p.Lines {
	}
	_ = p.Cmd.Wait() // "signal: killed"
}
