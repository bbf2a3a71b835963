package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// workerMain is the process of a worker.
func workerMain() int {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench worker:", err)
		return 1
	}
	return 0
}

// serve does one job. It ends early when its coordinator goes away, so that no worker outlives a
// benchmark that was killed.
func serve(stdin io.Reader, stdout io.Writer) error {
	in, out := json.NewDecoder(stdin), json.NewEncoder(stdout)
	var j job
	if err := in.Decode(&j); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	starts := make(chan window, 1)
	go func() { // ends with stdin
		defer cancel()
		for {
			var w window
			if in.Decode(&w) != nil {
				return
			}
			starts <- w
		}
	}()
	w := worker{job: j, say: func(event string) error { return out.Encode(message{Event: event}) }}
	w.begin = func() (window, error) {
		if err := w.say(eventReady); err != nil {
			return window{}, err
		}
		select {
		case win := <-starts:
			return win, nil
		case <-ctx.Done():
			return window{}, errors.New("the coordinator has gone")
		}
	}
	r, err := w.work(ctx)
	if err != nil {
		return errors.Join(err, out.Encode(message{Event: eventError, Error: err.Error()}))
	}
	return out.Encode(message{Event: eventResult, Result: r})
}

// worker does one job.
type worker struct {
	job
	say   func(event string) error
	begin func() (window, error) // says ready and waits for the start

	page    *page
	clients []client
}

// work connects, does the task and closes what it opened.
func (w *worker) work(ctx context.Context) (r *result, err error) {
	c, ok := contenderNamed(w.Contender)
	if !ok || c.open == nil {
		return nil, errors.New("no contender of this program: " + w.Contender)
	}
	if w.page, err = openPage(w.Page); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.page.close()) }()
	for range w.Clients {
		cl, err := c.open(w.job)
		if err != nil {
			return nil, err
		}
		w.clients = append(w.clients, cl)
	}
	defer func() {
		for _, cl := range w.clients {
			err = errors.Join(err, cl.close())
		}
	}()
	switch w.Task {
	case taskPairs:
		return w.pairs(ctx)
	case taskHold:
		return w.hold(ctx)
	case taskAwait:
		return w.await(ctx)
	case taskWaiters:
		return w.waiters(ctx)
	case taskHeld:
		return w.held(ctx)
	case taskIdle:
		return w.idle(ctx)
	case taskGather:
		return w.gather(ctx)
	case taskCount:
		return w.count(ctx)
	}
	return nil, errors.New("no such task: " + w.Task)
}

// locker makes the locker of goroutine i, and says which slot of the page is its name's.
func (w *worker) locker(ctx context.Context, i int) (locker, slot, error) {
	name, at := w.Name, 0
	if w.Each {
		if at = i; at >= pageSlots {
			return nil, slot{}, fmt.Errorf("the page has %d slots; use fewer names", pageSlots)
		}
		name = fmt.Sprintf("%s:%d", name, i)
	}
	c := w.clients[i%len(w.clients)]
	take := c.locker
	if w.Readers && i >= w.Writers {
		r, ok := c.(readable)
		if !ok {
			return nil, slot{}, errors.New("nobody can only read under " + w.Contender)
		}
		take = r.reader
	}
	l, err := take(ctx, name)
	return l, w.page.slot(at), err
}
