package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
)

// process is a worker as its coordinator sees it. Its reader is the only goroutine and is joined by
// stop.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	says   chan message // closed at the end of its output
	stderr strings.Builder
	once   sync.Once
	ended  error
}

// start runs a worker and gives it its job.
func start(command []string, env []string, j job) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...), says: make(chan message, 4)}
	p.cmd.Stderr = &p.stderr
	p.cmd.Env = env
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.read(stdout)
	if err := p.tell(j); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *process) read(stdout io.Reader) {
	defer close(p.says)
	lines := json.NewDecoder(stdout)
	for {
		var m message
		if lines.Decode(&m) != nil {
			return // its end, or what is not of the protocol: await says which
		}
		p.says <- m // 4 are never outstanding: a worker says three things at most
	}
}

func (p *process) tell(what any) error { return json.NewEncoder(p.stdin).Encode(what) }

// await returns the next message, which must be of one kind.
func (p *process) await(ctx context.Context, event string) (message, error) {
	select {
	case m, ok := <-p.says:
		switch {
		case !ok:
			p.stop()
			return m, fmt.Errorf("a worker ended without a word (%w): %s", p.ended, tail(p.stderr.String()))
		case m.Event == eventError:
			return m, errors.New("a worker failed: " + m.Error)
		case m.Event != event:
			return m, fmt.Errorf("a worker said %q where %q was due", m.Event, event)
		}
		return m, nil
	case <-ctx.Done():
		return message{}, fmt.Errorf("no %q from a worker: %w", event, context.Cause(ctx))
	}
}

func tail(s string) string { return s[max(0, len(s)-1000):] }

// stop kills the worker if it still runs, and waits for it. A second call does nothing.
func (p *process) stop() {
	p.once.Do(func() {
		_ = p.stdin.Close()
		_ = p.cmd.Process.Kill() // it has ended, or has nothing more to say
		for range p.says {       // the reader ends with the pipe
		}
		if p.ended = p.cmd.Wait(); p.ended == nil {
			p.ended = errors.New("exit code 0")
		}
	})
}
