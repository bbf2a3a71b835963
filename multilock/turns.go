package multilock

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// turns has the calls of one client that wait for the same members. They ask one after another, each from its first
// question to its last. If all asked at the same time, each would be refused what another one has for a moment, and would
// give back what it has itself: 64 callers who waited for 15 ms, 2 ms away, got all members twice a second.
//
// First come, first served, but whoever has less time left than the last call took is passed over if another one has
// more. Else callers who all wait for a few round trips would stop each other: the first of them has the least time left.
type turns struct {
	client *engine.Client

	mu    sync.Mutex            // guards the rest; never held while waiting
	lines map[string]*list.List // of *ticket, oldest first, by the names of the members; there while a call has the turn
	took  time.Duration         // the last call that got all members, from the beginning of its turn
}

// ticket is a call that waits for its turn.
type ticket struct {
	until time.Time     // when the call has to return; zero: it may take any time
	ready chan struct{} // closed, with mu held, when it has the turn
}

// longestTurn bounds what the last call took. It may have waited for another client.
const longestTurn = time.Second

func turnsOf(c *engine.Client) *turns {
	return engine.Attached(c, func(c *engine.Client) *turns {
		return &turns{client: c, lines: make(map[string]*list.List)}
	})
}

// enter waits for the turn as long as ctx and until allow, and reports whether the call has it.
func (t *turns) enter(ctx context.Context, set string, until time.Time) bool {
	t.mu.Lock()
	line := t.lines[set]
	if line == nil {
		t.lines[set] = list.New()
		t.mu.Unlock()
		return true
	}
	p := &ticket{until: until, ready: make(chan struct{})}
	place := line.PushBack(p)
	t.mu.Unlock()
	if !until.IsZero() {
		limited, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		ctx = limited
	}
	select {
	case <-p.ready:
		return true
	case <-ctx.Done():
	case <-t.client.Context().Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-p.ready: // in this moment
		return true
	default:
		line.Remove(place)
		return false
	}
}

// leave gives the turn to the next call. took is how long it was, if the call got all members; else 0.
func (t *turns) leave(set string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if took > 0 {
		t.took = min(took, longestTurn)
	}
	line := t.lines[set]
	next := line.Front()
	if next == nil {
		delete(t.lines, set)
		return
	}
	for e, enough := next, time.Now().Add(t.took); e != nil; e = e.Next() {
		until := e.Value.(*ticket).until
		if until.IsZero() || until.After(enough) {
			next = e
			break
		}
		if until.After(next.Value.(*ticket).until) {
			next = e
		}
	}
	close(line.Remove(next).(*ticket).ready)
}
