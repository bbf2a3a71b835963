package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// orderWithin bounds every order: the longest that one takes by design is the wait for a killed
// holder's lease.
func orderWithin() time.Duration { return pace() * 5 * time.Second }

// member is a worker process as the demo sees it. Orders go out one at a time; each has one answer.
type member struct {
	proc    *process
	in      io.WriteCloser
	orders  *json.Encoder
	answers chan result // closed when the worker's output ends, by the goroutine that reads it
	losses  chan result // "lost", at most one for each grant
	served  chan result // "served", one for each in the queue
	opened  chan result // "opened", one for each latch
}

// recruit starts a worker and waits until it has made its client.
func recruit(ctx context.Context, start order) (*member, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, workerCommand)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Not StdoutPipe: Wait would close it while the last lines are still unread.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	m := &member{in: in, orders: json.NewEncoder(in), answers: make(chan result, 1), losses: make(chan result, 8),
		served: make(chan result, demoQueue), opened: make(chan result, 1)}
	m.proc, err = launch(cmd, workerDeath)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	go m.listen(r)
	_, err = m.do(ctx, start)
	if err != nil {
		m.kill()
		return nil, err
	}
	return m, nil
}

// listen sorts what the worker says, until it ends.
func (m *member) listen(r io.ReadCloser) {
	defer close(m.answers)
	defer r.Close()
	for in := json.NewDecoder(r); ; {
		var said result
		if err := in.Decode(&said); err != nil {
			return
		}
		switch said.Op {
		case "lost":
			m.losses <- said
		case "served":
			m.served <- said
		case "opened":
			m.opened <- said
		default:
			m.answers <- said
		}
	}
}

// pid is the number of its process.
func (m *member) pid() int { return m.proc.cmd.Process.Pid }

// order sends an order whose answer is fetched later.
func (m *member) order(o order) error { return m.orders.Encode(o) }

// answer waits for the answer to the last order.
func (m *member) answer(ctx context.Context) (result, error) { return receive(ctx, m.answers) }

// loss waits until the worker says that its lock is lost.
func (m *member) loss(ctx context.Context) (result, error) { return receive(ctx, m.losses) }

// do sends an order and waits for the answer. That a lock was refused is an answer; other errors
// are errors.
func (m *member) do(ctx context.Context, o order) (result, error) {
	if err := m.order(o); err != nil {
		return result{}, err
	}
	return m.answer(ctx)
}

func receive(ctx context.Context, from <-chan result) (result, error) {
	timer := time.NewTimer(orderWithin())
	defer timer.Stop()
	select {
	case r, ok := <-from:
		switch {
		case !ok:
			return r, errors.New("the worker has ended")
		case r.Error != "" && r.Refusal == "":
			return r, fmt.Errorf("worker: %s", r.Error)
		}
		return r, nil
	case <-timer.C:
		return result{}, fmt.Errorf("no word from the worker within %v", orderWithin())
	case <-ctx.Done():
		return result{}, context.Cause(ctx)
	}
}

// kill ends the worker as a crash does, and joins what belongs to it.
func (m *member) kill() {
	m.proc.kill()
	m.join()
}

// dismiss lets the worker end by itself: it gives back what it holds. One that does not is killed.
// It returns whether the worker ended well.
func (m *member) dismiss(ctx context.Context) bool {
	_ = m.in.Close() // an error means that it is gone
	timer := time.NewTimer(orderWithin())
	defer timer.Stop()
	select {
	case <-m.proc.exited:
	case <-timer.C:
	case <-ctx.Done():
	}
	m.kill()
	return m.proc.code() == 0
}

// join waits for listen, dropping what nobody asked for.
func (m *member) join() {
	_ = m.in.Close()
	for range m.answers {
	}
}
