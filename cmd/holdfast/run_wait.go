package main

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// sayAfter is how long the wait for a lock may take before somebody at a terminal is told of it.
const sayAfter = time.Second

// tellOfWait says at a terminal who has the lock that is waited for, once. After stop it says nothing. Nobody waits for its
// goroutine, which go-redis may hold up: the lock may be granted meanwhile.
func (r *runner) tellOfWait(ctx context.Context) (stop func()) {
	if terminalWidth(r.stderr) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	found := make(chan string, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-time.After(sayAfter):
		case <-ctx.Done():
			return
		}
		go func() { found <- r.waitedFor(ctx) }()
		select {
		case text := <-found:
			if ctx.Err() == nil {
				r.say("waiting for %s", text)
			}
		case <-ctx.Done():
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// waitedFor is the lock that somebody has, of several the first one, and who that is.
func (r *runner) waitedFor(ctx context.Context) string {
	for _, rdb := range r.rdbs {
		i, err := inspect.New(rdb, nil)
		if err != nil {
			break
		}
		for _, name := range r.names() {
			l, err := i.Lock(ctx, name)
			if err != nil || len(l.Holders) == 0 {
				continue
			}
			text := fmt.Sprintf("%s, held by %s", printable.Quote(name), ownerAndLabel(l.Holders[0].Owner, l.Holders[0].Label))
			if n := len(l.Holders); n > 1 {
				text += fmt.Sprintf(" and %d more", n-1)
			}
			return text
		}
	}
	return printable.Quote(r.name)
}
